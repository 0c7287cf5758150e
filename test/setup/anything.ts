import * as fc from 'fast-check'

/** Every kind of value a handler can return, whether JSON has a word for it or not. */
export const anything = fc.anything({
  withBigInt: true,
  withBoxedValues: true,
  withDate: true,
  withMap: true,
  withSet: true,
  withSparseArray: true,
  withTypedArray: true,
  withNullPrototype: true,
  withUnicodeString: true,
})

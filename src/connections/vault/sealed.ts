/** One value as it is stored. Useless without the key it names, and for any other place than the one it was sealed for. */
export interface Sealed {
  /** Of this form; a reader refuses one it does not know. */
  readonly version: number
  /** Of the key that wraps the data key. */
  readonly keyId: string
  /** iv | tag | ciphertext of the data key. */
  readonly wrappedKey: Uint8Array
  /** iv | tag | ciphertext of the value. */
  readonly sealed: Uint8Array
}

/** Where a value belongs. Authenticated with it: a row that is copied elsewhere does not open there. */
export interface SealPlace {
  readonly organizationId: string
  /** Of the connection, or of whatever else the value belongs to. */
  readonly connectionId: string
  readonly field: string
}

export interface SealedField extends Sealed {
  readonly field: string
}

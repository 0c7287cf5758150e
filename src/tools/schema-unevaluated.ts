import { _, Name } from 'ajv'
import { Type } from 'ajv/dist/compile/util.js'
import type { Ajv, Code, CodeKeywordDefinition, KeywordCxt } from 'ajv'

/**
 * The keywords that ask what others have evaluated, with the library's bookkeeping read correctly. Its own versions look
 * names up in a plain object, where `toString` is always found; compare with a count of items that may be missing, and
 * nothing is larger than that; and count what an `if` has seen even when it does not hold. Each lets values through that
 * the schema refuses.
 */
export function replaceUnevaluated(ajv: Ajv): void {
  for (const definition of [IF, UNEVALUATED_PROPERTIES, UNEVALUATED_ITEMS]) {
    ajv.removeKeyword(definition.keyword as string)
    ajv.addKeyword(definition)
  }
}

const IF: CodeKeywordDefinition = {
  keyword: 'if',
  schemaType: ['object', 'boolean'],
  trackErrors: true,
  error: { message: 'must match what its "if" demands' },
  code(cxt) {
    const { gen, parentSchema } = cxt
    const [valid, holds] = [gen.let('valid', true), gen.name('_valid')]
    const condition = { keyword: 'if', compositeRule: true, createErrors: false, allErrors: false } as const
    cxt.mergeValidEvaluated(cxt.subschema(condition, holds), holds)
    cxt.reset()
    const branch = (keyword: 'then' | 'else') => (): void => {
      if (parentSchema[keyword] === undefined) return
      const kept = gen.name('_valid')
      const tried = cxt.subschema({ keyword }, kept)
      gen.assign(valid, kept)
      cxt.mergeValidEvaluated(tried, kept)
    }
    gen.if(holds, branch('then'), branch('else'))
    cxt.pass(valid, () => cxt.error(true))
  },
}

const UNEVALUATED_PROPERTIES: CodeKeywordDefinition = {
  keyword: 'unevaluatedProperties',
  type: 'object',
  schemaType: ['boolean', 'object'],
  trackErrors: true,
  error: {
    message: 'must NOT have unevaluated properties',
    params: ({ params }) => _`{unevaluatedProperty: ${params['unevaluatedProperty']}}`,
  },
  code(cxt) {
    const { gen, data, errsCount, it } = cxt
    const { props } = it
    if (props !== true) {
      gen.forIn('key', data, (key) => {
        const known = props === undefined ? null : isEvaluated(cxt, props, key)
        if (known === null) check(cxt, key)
        else gen.if(_`!(${known})`, () => check(cxt, key))
      })
    }
    it.props = true
    cxt.ok(_`${errsCount} === errors`)
  },
}

/** The names are in a variable, or known now; in either place only own properties count. */
function isEvaluated(cxt: KeywordCxt, props: Name | Readonly<Record<string, unknown>>, key: Name): Code {
  const has = cxt.gen.scopeValue('func', { ref: Object.hasOwn, code: _`Object.hasOwn` })
  if (props instanceof Name) return _`${props} === true || (${props} && ${has}(${props}, ${key}))`
  const names = Object.keys(props).filter((name) => props[name] === true)
  return names.reduce<Code>((any, name) => _`${any} || ${key} === ${name}`, _`false`)
}

function check(cxt: KeywordCxt, key: Name): void {
  const { gen, schema } = cxt
  if (schema === false) {
    cxt.setParams({ unevaluatedProperty: key })
    cxt.error()
    gen.break()
    return
  }
  const valid = gen.name('valid')
  cxt.subschema({ keyword: 'unevaluatedProperties', dataProp: key, dataPropType: Type.Str }, valid)
  gen.if(_`!${valid}`, () => gen.break())
}

const UNEVALUATED_ITEMS: CodeKeywordDefinition = {
  keyword: 'unevaluatedItems',
  type: 'array',
  schemaType: ['boolean', 'object'],
  error: { message: 'must NOT have unevaluated items' },
  code(cxt) {
    const { gen, schema, data, it } = cxt
    const { items } = it
    it.items = true
    if (items === true) return
    const from = gen.const('from', items === undefined ? _`0` : _`${items} === true ? ${data}.length : ${items} || 0`)
    if (schema === false) {
      cxt.fail(_`${data}.length > ${from}`)
      return
    }
    const valid = gen.var('valid', true)
    gen.forRange('i', from, _`${data}.length`, (index) => {
      cxt.subschema({ keyword: 'unevaluatedItems', dataProp: index, dataPropType: Type.Num }, valid)
      gen.if(_`!${valid}`, () => gen.break())
    })
    cxt.ok(valid)
  },
}

export type SuiteDialect = '2020-12' | 'draft-07'

/** Why some cases of the suite are not answered as the suite expects. */
export interface SuiteException {
  readonly reason: string
  /** What the refusal of the schema says; null where the schema is accepted and judges a value otherwise. */
  readonly problem: RegExp | null
  /** By dialect and file: groups whose schema is refused, or single cases, written `group: case`. */
  readonly cases: Readonly<Partial<Record<SuiteDialect, Readonly<Record<string, readonly string[]>>>>>
}

/** Every required case that is not listed here is answered as the suite expects. */
export const SUITE_EXCEPTIONS: readonly SuiteException[] = [
  {
    reason: 'references lead outside of the document, or to a place that has no path; nothing is ever fetched',
    problem: /does not lead to a schema of this document/,
    cases: {
      '2020-12': {
        anchor: ['Location-independent identifier'],
        defs: ['validate definition against metaschema'],
        dynamicRef: [
          'A $ref to a $dynamicAnchor in the same schema resource behaves like a normal $ref to an $anchor',
          'strict-tree schema, guards against misspelled properties',
          'tests for implementation dynamic anchor and reference link',
          '$ref and $dynamicAnchor are independent of order - $defs first',
          '$ref and $dynamicAnchor are independent of order - $ref first',
          '$ref to $dynamicRef finds detached $dynamicAnchor',
        ],
        ref: [
          'remote ref, containing refs itself',
          'simple URN base URI with $ref via the URN',
          'URN base URI with URN and JSON pointer ref',
          'URN base URI with URN and anchor ref',
        ],
        refRemote: [
          'remote ref',
          'fragment within remote ref',
          'anchor within remote ref',
          'ref within remote ref',
          'root ref in remote ref',
          'remote ref with ref to defs',
          'Location-independent identifier in remote ref',
          'retrieved nested refs resolve relative to their URI not $id',
          'remote HTTP ref with different $id',
          'remote HTTP ref with different URN $id',
          'remote HTTP ref with nested absolute ref',
          '$ref to $ref finds detached $anchor',
        ],
      },
      'draft-07': {
        definitions: ['validate definition against metaschema'],
        ref: [
          'remote ref, containing refs itself',
          'simple URN base URI with $ref via the URN',
          'URN base URI with URN and JSON pointer ref',
        ],
        refRemote: [
          'remote ref',
          'fragment within remote ref',
          'ref within remote ref',
          'root ref in remote ref',
          'remote ref with ref to definitions',
          'Location-independent identifier in remote ref',
          'retrieved nested refs resolve relative to their URI not $id',
          '$ref to $ref finds location-independent $id',
        ],
      },
    },
  },
  {
    reason: 'a part with an identity of its own would move the base of the references inside it',
    problem: /a nested \$id is refused/,
    cases: {
      '2020-12': {
        anchor: [
          'Location-independent identifier with absolute URI',
          'Location-independent identifier with base URI change in subschema',
          'same $anchor with different base uri',
        ],
        ref: [
          'Recursive references between schemas',
          'refs with relative uris and defs',
          'relative refs with absolute uris and defs',
          '$id must be resolved against nearest parent, not just immediate parent',
          'order of evaluation: $id and $ref',
          'order of evaluation: $id and $anchor and $ref',
          'order of evaluation: $id and $ref on nested schema',
          'URN ref with nested pointer ref',
          'ref to if',
          'ref to then',
          'ref to else',
          'ref with absolute-path-reference',
        ],
        refRemote: [
          'base URI change',
          'base URI change - change folder',
          'base URI change - change folder in subschema',
        ],
      },
      'draft-07': {
        ref: [
          '$ref prevents a sibling $id from changing the base uri',
          'Recursive references between schemas',
          'Location-independent identifier',
          'Reference an anchor with a non-relative URI',
          'Location-independent identifier with base URI change in subschema',
          'refs with relative uris and defs',
          'relative refs with absolute uris and defs',
          '$id must be resolved against nearest parent, not just immediate parent',
          'URN base URI with URN and anchor ref',
          'ref to if',
          'ref to then',
          'ref to else',
          'ref with absolute-path-reference',
        ],
        refRemote: [
          'base URI change',
          'base URI change - change folder',
          'base URI change - change folder in subschema',
        ],
      },
    },
  },
  {
    reason: 'what a dynamic reference means depends on how it was reached, so no reader can tell what is accepted',
    problem: /\$dynamicRef is refused/,
    cases: {
      '2020-12': {
        dynamicRef: [
          'A $dynamicRef to a $dynamicAnchor in the same schema resource behaves like a normal $ref to an $anchor',
          'A $dynamicRef to an $anchor in the same schema resource behaves like a normal $ref to an $anchor',
          'A $dynamicRef resolves to the first $dynamicAnchor still in scope that is encountered when the schema is evaluated',
          'A $dynamicRef without anchor in fragment behaves identical to $ref',
          "A $dynamicRef with intermediate scopes that don't include a matching $dynamicAnchor does not affect dynamic scope resolution",
          'An $anchor with the same name as a $dynamicAnchor is not used for dynamic scope resolution',
          'A $dynamicRef without a matching $dynamicAnchor in the same schema resource behaves like a normal $ref to $anchor',
          'A $dynamicRef with a non-matching $dynamicAnchor in the same schema resource behaves like a normal $ref to $anchor',
          'A $dynamicRef that initially resolves to a schema with a matching $dynamicAnchor resolves to the first $dynamicAnchor in the dynamic scope',
          'A $dynamicRef that initially resolves to a schema without a matching $dynamicAnchor behaves like a normal $ref to $anchor',
          'multiple dynamic paths to the $dynamicRef keyword',
          'after leaving a dynamic scope, it is not used by a $dynamicRef',
          '$dynamicRef points to a boolean schema',
          '$dynamicRef skips over intermediate resources - direct reference',
          '$dynamicRef avoids the root of each schema, but scopes are still registered',
        ],
        unevaluatedItems: ['unevaluatedItems with $dynamicRef'],
        unevaluatedProperties: ['unevaluatedProperties with $dynamicRef'],
      },
    },
  },
  {
    reason: 'a contract is an object; a schema that is only `true` or `false` describes no arguments',
    problem: /a schema must be a JSON object/,
    cases: {
      '2020-12': {
        boolean_schema: ["boolean schema 'true'", "boolean schema 'false'"],
      },
      'draft-07': {
        boolean_schema: ["boolean schema 'true'", "boolean schema 'false'"],
      },
    },
  },
  {
    reason: 'a dialect that the schema defines itself cannot be known',
    problem: /a dialect that is not supported/,
    cases: {
      '2020-12': {
        vocabulary: [
          'schema that uses custom metaschema with with no validation vocabulary',
          'ignore unrecognized optional vocabulary',
        ],
      },
    },
  },
  {
    reason: 'the library cannot tell which items a `contains` has picked',
    problem: /unevaluatedItems and contains in one schema are refused/,
    cases: {
      '2020-12': {
        unevaluatedItems: [
          'unevaluatedItems depends on adjacent contains',
          'unevaluatedItems depends on multiple nested contains',
          'unevaluatedItems and contains interact to control item dependency relationship',
          'unevaluatedItems with minContains = 0',
        ],
      },
    },
  },
  {
    reason: 'formats are asserted: a tool that asks for an address means one',
    problem: null,
    cases: {
      '2020-12': {
        format: [
          'email format: invalid email string is only an annotation by default',
          'regex format: invalid regex string is only an annotation by default',
          'ipv4 format: invalid ipv4 string is only an annotation by default',
          'ipv6 format: invalid ipv6 string is only an annotation by default',
          'hostname format: invalid hostname string is only an annotation by default',
          'date format: invalid date string is only an annotation by default',
          'date-time format: invalid date-time string is only an annotation by default',
          'time format: invalid time string is only an annotation by default',
          'json-pointer format: invalid json-pointer string is only an annotation by default',
          'relative-json-pointer format: invalid relative-json-pointer string is only an annotation by default',
          'uri format: invalid uri string is only an annotation by default',
          'uri-reference format: invalid uri-reference string is only an annotation by default',
          'uri-template format: invalid uri-template string is only an annotation by default',
          'uuid format: invalid uuid string is only an annotation by default',
          'duration format: invalid duration string is only an annotation by default',
        ],
      },
    },
  },
]

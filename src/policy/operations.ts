import type { JsonObject } from '../tools/json.ts'
import { isJsonObject, own } from '../tools/json.ts'
import type { BinaryOperator, Method, Position } from './condition.ts'
import { globMatches, MAX_GLOB_LENGTH } from './glob.ts'

/** A value of the rule language: JSON, where a number is a double, and `bigint` for its whole numbers. */
export type Value = null | boolean | number | bigint | string | readonly Value[] | JsonObject

/** One part of a condition has no value. Another part may still decide: `false && <error>` is false. */
export class ConditionError extends Error {
  override readonly name = 'ConditionError'
  at: Position | null = null
}

/** The condition as a whole costs too much for this call. Nothing outweighs it. */
class CostExceeded extends Error {
  override readonly name = 'CostExceeded'
}

/** Counts work, so that a condition over arguments of any size ends. Cheap enough to ask at every node. */
export class Meter {
  #left: number
  constructor(steps: number) {
    this.#left = steps
  }
  spend(steps: number): void {
    this.#left -= steps
    if (this.#left < 0) throw new CostExceeded('the condition takes too many steps on these arguments')
  }
}

/** Characters a linear scan reads in the time of one step, for the slowest scan: a search that nearly matches throughout. */
const CHARACTERS_A_STEP = 16

const MIN_INT = -(2n ** 63n)
const MAX_INT = 2n ** 63n - 1n

export function typeName(value: Value): string {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'list'
  if (typeof value === 'string') return 'string'
  if (typeof value === 'number') return 'double'
  if (typeof value === 'bigint') return 'int'
  return typeof value === 'boolean' ? 'bool' : 'map'
}

export function isList(value: Value): value is readonly Value[] {
  return Array.isArray(value)
}

function isNumber(value: Value): value is number | bigint {
  return typeof value === 'number' || typeof value === 'bigint'
}

function scan(meter: Meter, characters: number): void {
  meter.spend(1 + Math.floor(characters / CHARACTERS_A_STEP))
}

/** Values of different types are unequal; `1` and `1.0` are equal. Keys are compared as own keys only. */
function equal(left: Value, right: Value, meter: Meter): boolean {
  meter.spend(1)
  if (isNumber(left) && isNumber(right)) return compareNumbers(left, right) === 0
  if (typeof left === 'string' && typeof right === 'string') {
    scan(meter, Math.min(left.length, right.length))
    return left === right
  }
  if (isList(left) && isList(right)) {
    return left.length === right.length && left.every((item, index) => equal(item, right[index] ?? null, meter))
  }
  if (isJsonObject(left) && isJsonObject(right)) {
    const keys = Object.keys(left)
    meter.spend(keys.length)
    if (keys.length !== Object.keys(right).length) return false
    return keys.every((key) => {
      const theirs = own(right, key)
      return theirs !== undefined && equal(own(left, key) ?? null, theirs, meter)
    })
  }
  return left === right
}

function contains(value: Value, container: Value, meter: Meter): boolean {
  if (isList(container)) return container.some((item) => equal(value, item, meter))
  if (isJsonObject(container)) {
    if (typeof value !== 'string') throw new ConditionError(`the keys of a map are strings, not ${typeName(value)}`)
    return Object.hasOwn(container, value)
  }
  throw new ConditionError(`in takes a list or a map on its right, not ${typeName(container)}`)
}

/** Negative, zero or positive; by number, by code point, or false before true. Undefined between other pairs. */
function order(left: Value, right: Value, meter: Meter): number | undefined {
  if (isNumber(left) && isNumber(right)) return compareNumbers(left, right)
  if (typeof left === 'string' && typeof right === 'string') {
    scan(meter, Math.min(left.length, right.length))
    return orderByCodePoint(left, right)
  }
  if (typeof left === 'boolean' && typeof right === 'boolean') return Number(left) - Number(right)
  return undefined
}

/** Exact between a double and an int; neither is ever NaN. */
function compareNumbers(left: number | bigint, right: number | bigint): number {
  return left < right ? -1 : left > right ? 1 : 0
}

/** JavaScript orders by UTF-16 unit, which puts U+1F600 before U+FF41; CEL orders by code point. */
function orderByCodePoint(left: string, right: string): number {
  const length = Math.min(left.length, right.length)
  for (let index = 0; index < length; index += 1) {
    const a = left.charCodeAt(index)
    const b = right.charCodeAt(index)
    if (a !== b) return surrogatesLast(a) - surrogatesLast(b)
  }
  return left.length - right.length
}

function surrogatesLast(unit: number): number {
  return unit >= 0xd800 && unit <= 0xdfff ? unit + 0x2000 : unit >= 0xe000 ? unit - 0x800 : unit
}

function add(left: Value, right: Value, meter: Meter): Value | undefined {
  if (typeof left === 'string' && typeof right === 'string') {
    scan(meter, left.length + right.length)
    return left + right
  }
  if (isList(left) && isList(right)) {
    meter.spend(left.length + right.length)
    return [...left, ...right]
  }
  return undefined
}

function calculate(operator: '+' | '-' | '*' | '/' | '%', left: Value, right: Value): Value | undefined {
  if (typeof left === 'bigint' && typeof right === 'bigint') {
    if ((operator === '/' || operator === '%') && right === 0n) throw new ConditionError('division by zero')
    return inRange(INT_ARITHMETIC[operator](left, right))
  }
  if (typeof left === 'number' && typeof right === 'number' && operator !== '%') {
    return finite(DOUBLE_ARITHMETIC[operator](left, right))
  }
  return undefined
}

const INT_ARITHMETIC = {
  '+': (a: bigint, b: bigint) => a + b,
  '-': (a: bigint, b: bigint) => a - b,
  '*': (a: bigint, b: bigint) => a * b,
  '/': (a: bigint, b: bigint) => a / b,
  '%': (a: bigint, b: bigint) => a % b,
}

const DOUBLE_ARITHMETIC = {
  '+': (a: number, b: number) => a + b,
  '-': (a: number, b: number) => a - b,
  '*': (a: number, b: number) => a * b,
  '/': (a: number, b: number) => a / b,
}

function inRange(value: bigint): bigint {
  if (value < MIN_INT || value > MAX_INT) throw new ConditionError('the result does not fit an int')
  return value
}

/** Stricter than CEL: 0.0 / 0.0 compares false with everything, so a limit written as a ratio would silently not match. */
function finite(value: number): number {
  if (!Number.isFinite(value)) throw new ConditionError('the result is not a finite number')
  return value
}

export function binary(operator: BinaryOperator, operands: readonly [Value, Value], meter: Meter): Value {
  const [left, right] = operands
  switch (operator) {
    case '==':
      return equal(left, right, meter)
    case '!=':
      return !equal(left, right, meter)
    case 'in':
      return contains(left, right, meter)
    case '<':
    case '<=':
    case '>':
    case '>=': {
      const ordered = order(left, right, meter)
      if (ordered === undefined) break
      return operator === '<'
        ? ordered < 0
        : operator === '<='
          ? ordered <= 0
          : operator === '>'
            ? ordered > 0
            : ordered >= 0
    }
    case '+':
    case '-':
    case '*':
    case '/':
    case '%': {
      const result = (operator === '+' ? add(left, right, meter) : undefined) ?? calculate(operator, left, right)
      if (result !== undefined) return result
    }
  }
  throw new ConditionError(`${operator} is not defined between ${typeName(left)} and ${typeName(right)}`)
}

export function negate(value: Value): Value {
  if (typeof value === 'bigint') return inRange(-value)
  if (typeof value === 'number') return -value
  throw new ConditionError(`- is not defined for ${typeName(value)}`)
}

/** Reads a key of a map, or an element of a list by a whole number. */
export function element(of: Value, key: Value): Value {
  if (isList(of)) {
    const index = typeof key === 'bigint' ? Number(key) : key
    if (typeof index !== 'number') throw new ConditionError(`a list is indexed by a number, not ${typeName(key)}`)
    const item = Number.isInteger(index) && index >= 0 ? of[index] : undefined
    if (item === undefined) throw new ConditionError('the list has no item at that index')
    return item
  }
  if (typeof key !== 'string') throw new ConditionError(`the keys of a map are strings, not ${typeName(key)}`)
  const value = isJsonObject(of) ? own(of, key) : notAMap(of)
  if (value === undefined) throw new ConditionError('there is no value under that key')
  return value
}

export function field(of: Value, key: string): Value {
  const value = isJsonObject(of) ? own(of, key) : notAMap(of)
  if (value === undefined) throw new ConditionError(`there is no field ${key}`)
  return value
}

export function has(of: Value, key: string): boolean {
  return (isJsonObject(of) ? own(of, key) : notAMap(of)) !== undefined
}

function notAMap(value: Value): never {
  throw new ConditionError(`${typeName(value)} has no fields`)
}

export function call(method: Method, operands: readonly [Value, Value | null], meter: Meter): Value {
  const [of, argument] = operands
  switch (method) {
    case 'size':
      return size(of, meter)
    case 'int':
      return toInt(of)
    case 'double':
      if (isNumber(of)) return Number(of)
      throw new ConditionError(`double() takes a number, not ${typeName(of)}`)
    case 'lowerAscii':
    case 'upperAscii': {
      const text = textOf(of, method)
      scan(meter, text.length)
      return method === 'lowerAscii'
        ? text.replace(/[A-Z]+/g, (letters) => letters.toLowerCase())
        : text.replace(/[a-z]+/g, (letters) => letters.toUpperCase())
    }
    case 'contains':
    case 'startsWith':
    case 'endsWith':
    case 'glob':
      return search(method, [textOf(of, method), textOf(argument, method)], meter)
  }
}

function search(
  method: 'contains' | 'startsWith' | 'endsWith' | 'glob',
  texts: readonly [string, string],
  meter: Meter,
): boolean {
  const [text, wanted] = texts
  switch (method) {
    case 'startsWith':
      scan(meter, wanted.length)
      return text.startsWith(wanted)
    case 'endsWith':
      scan(meter, wanted.length)
      return text.endsWith(wanted)
    case 'contains':
      // The engine's search is quadratic for texts made for it, so it is charged as if it always were.
      meter.spend(1 + Math.ceil(text.length / CHARACTERS_A_STEP) * Math.ceil(wanted.length / CHARACTERS_A_STEP))
      return text.includes(wanted)
    case 'glob':
      if (wanted.length > MAX_GLOB_LENGTH) throw new ConditionError(`a glob has at most ${MAX_GLOB_LENGTH} characters`)
      meter.spend(1 + Math.ceil((text.length * (4 + wanted.length)) / 64))
      return globMatches(text, wanted)
  }
}

function textOf(value: Value | null, method: Method): string {
  if (typeof value === 'string') return value
  throw new ConditionError(`${method}() takes a string, not ${typeName(value)}`)
}

/** Code points of a string, items of a list, keys of a map. */
function size(value: Value, meter: Meter): bigint {
  if (typeof value === 'string') {
    scan(meter, value.length * 2)
    let points = 0
    for (const _ of value) points += 1
    return BigInt(points)
  }
  if (isList(value)) return BigInt(value.length)
  if (isJsonObject(value)) {
    const keys = Object.keys(value).length
    meter.spend(keys)
    return BigInt(keys)
  }
  throw new ConditionError(`size() takes a string, a list or a map, not ${typeName(value)}`)
}

function toInt(value: Value): bigint {
  if (typeof value === 'bigint') return value
  if (typeof value !== 'number') throw new ConditionError(`int() takes a number, not ${typeName(value)}`)
  if (!(Math.abs(value) < 2 ** 63)) throw new ConditionError('the number does not fit an int')
  return BigInt(Math.trunc(value))
}

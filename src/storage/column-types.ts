import type { ColumnType } from 'kysely'
import type { JsonValue } from '../tools/json.ts'

/** Column types as read, inserted and updated: JSON is selected parsed and written as text. */
export type Json = ColumnType<JsonValue, string, string>
export type NullableJson = ColumnType<JsonValue | null, string | null | undefined, string | null>
export type DefaultedJson = ColumnType<JsonValue, string | undefined, string>
export type Bytes = ColumnType<Buffer, Uint8Array, Uint8Array>
export type NullableBytes = ColumnType<Buffer | null, Uint8Array | null | undefined, Uint8Array | null>
export type Instant = ColumnType<Date, Date | string, Date | string>
export type NullableInstant = ColumnType<Date | null, Date | string | null | undefined, Date | string | null>
/** Filled in by `now()`. */
export type StampedInstant = ColumnType<Date, Date | string | undefined, Date | string>

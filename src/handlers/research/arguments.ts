import { z } from 'zod'

/** One line: no control characters, and something other than spaces. */
export const line = (max: number) =>
  z
    .string()
    .max(max)
    .regex(/^\P{Cc}*[^\p{Cc}\s]\P{Cc}*$/u)

/** A host name with a top level, as a company's site has; no scheme, port or path. */
export const domain = () =>
  z
    .string()
    .max(253)
    .regex(/^([A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?\.)+[A-Za-z][A-Za-z0-9-]*[A-Za-z0-9]$/)

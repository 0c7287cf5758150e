import { z } from 'zod'

/** One line: no control characters, and something other than spaces. */
export const line = (max: number) =>
  z
    .string()
    .max(max)
    .regex(/^\P{Cc}*[^\p{Cc}\s]\P{Cc}*$/u)

/** Text of several lines: no control characters but line ends and tabs, and something other than spaces. */
export const prose = (max: number) =>
  z
    .string()
    .max(max)
    .regex(/^[\P{Cc}\t\n\r]*[^\p{Cc}\s][\P{Cc}\t\n\r]*$/u)

import { z } from 'zod'
import { VendorError } from '../vendor/vendor-error.ts'
import { clippedLine, clippedText } from './vendor-text.ts'

export interface FoundCompany {
  readonly domain: string
  readonly name: string | null
  readonly description: string | null
  readonly industry: string | null
  /** A number, or a range such as 11-50. */
  readonly employees: string | null
  readonly location: string | null
  readonly country: string | null
  readonly founded: number | null
  /** The handle, such as company/sample. */
  readonly linkedin: string | null
  readonly tags: string[]
}

const MAX_TAGS = 10

const text = z.string().nullish().catch(null)
const part = <Shape extends z.core.$ZodLooseShape>(shape: Shape) => z.object(shape).nullish().catch(null)

/** Nearly everything may be null; a field that cannot be read counts as that, and the answer stays. */
const Company = z
  .object({
    domain: text,
    name: text,
    description: text,
    category: part({ sector: text, industry: text }),
    // Described as a range in one place and as a number in another.
    metrics: part({
      employees: z
        .union([z.string(), z.int().min(0)])
        .nullish()
        .catch(null),
    }),
    location: text,
    geo: part({ country: text }),
    foundedYear: z.int().min(1000).max(9999).nullish().catch(null),
    linkedin: part({ handle: text }),
    tags: z.array(z.unknown()).nullish().catch(null),
  })
  .nullable()

/**
 * Reads a company; null when the vendor has none. An object is one, however little it holds: it is charged.
 *
 * @param asked stands for the domain where the vendor names none
 * @throws VendorError `decode`
 */
export function readCompany(row: unknown, asked: string): FoundCompany | null {
  const parsed = Company.safeParse(row)
  if (!parsed.success) throw new VendorError({ vendor: 'hunter', trouble: 'decode', cause: parsed.error })
  if (parsed.data === null) return null
  const { category, metrics, geo, linkedin, tags, ...company } = parsed.data
  return {
    domain: clippedLine(company.domain, 253) ?? asked,
    name: clippedLine(company.name, 200),
    description: clippedText(company.description, 1_000),
    industry: clippedLine(category?.industry ?? category?.sector, 200),
    employees: clippedLine(metrics?.employees?.toString(), 30),
    location: clippedLine(company.location, 200),
    country: clippedLine(geo?.country, 100),
    founded: company.foundedYear ?? null,
    linkedin: clippedLine(linkedin?.handle, 200),
    tags: (tags ?? []).flatMap((tag) => clippedLine(typeof tag === 'string' ? tag : null, 50) ?? []).slice(0, MAX_TAGS),
  }
}

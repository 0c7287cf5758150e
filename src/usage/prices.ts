import type { ModelUsage } from '../runs/session.ts'

/** Cents per million tokens. */
export interface ModelPrice {
  readonly inputCents: number
  readonly outputCents: number
}

/** `provider/model` → price. A key that ends with `*` prices every model that starts so; the longest match wins. */
export type PriceTable = Readonly<Record<string, ModelPrice>>

export interface PriceBook {
  /** Null when the model has no price: its turns are counted and cost nothing, so a cost ceiling on it is refused at start. */
  costCents(usage: ModelUsage): number | null
  knows(model: string): boolean
}

/** Models that cost nothing by nature. Every paid price is a deployment's data: list prices change more often than code. */
const FREE: PriceTable = { 'scripted/*': { inputCents: 0, outputCents: 0 } }

export function priceBook(table: PriceTable = {}): PriceBook {
  const prices = new Map(Object.entries({ ...FREE, ...table }))
  const find = (model: string): ModelPrice | null => {
    const exact = prices.get(model)
    if (exact !== undefined) return exact
    const wildcard = [...prices.keys()]
      .filter((key) => key.endsWith('*') && model.startsWith(key.slice(0, -1)))
      .sort((a, b) => b.length - a.length)[0]
    return wildcard === undefined ? null : (prices.get(wildcard) ?? null)
  }
  return {
    knows: (model) => find(model) !== null,
    costCents(usage) {
      const price = find(`${usage.provider}/${usage.model}`)
      return price === null
        ? null
        : (usage.inputTokens * price.inputCents + usage.outputTokens * price.outputCents) / 1_000_000
    },
  }
}

import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { clusterIdentity, judgeRestore } from './restore.ts'

const HERE = clusterIdentity({ system: '7001', timeline: 1, databaseOid: 5 })

describe('a database in a cluster', () => {
  test('that nobody noted anything about is new', () => {
    expect(judgeRestore({ cluster: HERE, stored: null, witness: null })).toStrictEqual({ kind: 'new' })
  })

  test('is the same where it says what its cluster says, with or without a file', () => {
    const stored = { identity: HERE, generation: 9 }
    for (const witness of [null, { identity: HERE, generation: 9 }, { identity: HERE, generation: 3 }])
      expect(judgeRestore({ cluster: HERE, stored, witness })).toStrictEqual({ kind: 'same' })
  })

  test.each([
    ['another cluster', { system: '7002', timeline: 1, databaseOid: 5 }, /another cluster/],
    ['a later timeline', { system: '7001', timeline: 2, databaseOid: 5 }, /timeline 1 to 2/],
    ['an earlier timeline', { system: '7001', timeline: 0, databaseOid: 5 }, /timeline 1 to 0/],
    ['a database that was restored beside it', { system: '7001', timeline: 1, databaseOid: 6 }, /another database/],
  ])('came back where it is in %s', (_name, parts, reason) => {
    const verdict = judgeRestore({
      cluster: clusterIdentity(parts),
      stored: { identity: HERE, generation: 9 },
      witness: null,
    })
    expect(verdict).toStrictEqual({ kind: 'restored', reason: expect.stringMatching(reason) })
  })

  test('came back where it knows less than was seen of it', () => {
    const verdict = judgeRestore({
      cluster: HERE,
      stored: { identity: HERE, generation: 8 },
      witness: { identity: HERE, generation: 9 },
    })
    expect(verdict).toStrictEqual({ kind: 'restored', reason: 'it has gone back from generation 9 to 8' })
  })

  test('came back where the file knows it and it knows of nothing', () => {
    const witness = { identity: HERE, generation: 9 }
    expect(judgeRestore({ cluster: HERE, stored: null, witness })).toMatchObject({ kind: 'restored' })
  })

  test('is not judged by the file of another database', () => {
    const witness = { identity: clusterIdentity({ system: '1', timeline: 1, databaseOid: 1 }), generation: 99 }
    const stored = { identity: HERE, generation: 1 }
    expect(judgeRestore({ cluster: HERE, stored, witness })).toStrictEqual({ kind: 'same' })
  })

  test('is the same where its role may not ask the cluster, now or before', () => {
    const blind = clusterIdentity({ system: null, timeline: null, databaseOid: 5 })
    for (const [stored, cluster] of [
      [HERE, blind],
      [blind, HERE],
      [blind, blind],
    ] as const)
      expect(judgeRestore({ cluster, stored: { identity: stored, generation: 1 }, witness: null })).toStrictEqual({
        kind: 'same',
      })
    const elsewhere = clusterIdentity({ system: null, timeline: null, databaseOid: 6 })
    expect(
      judgeRestore({ cluster: elsewhere, stored: { identity: HERE, generation: 1 }, witness: null }),
    ).toMatchObject({ kind: 'restored' })
  })

  test.each(['', 'x', 'pg:1:1', 'pg:1:1:1:1'])('came back where what stands in it is %j', (identity) => {
    expect(judgeRestore({ cluster: HERE, stored: { identity, generation: 1 }, witness: null })).toMatchObject({
      kind: 'restored',
    })
  })
})

describe('a database in a data folder', () => {
  const kept = { identity: 'folder:a', generation: 4 }

  test('that nobody noted anything about is new', () => {
    expect(judgeRestore({ cluster: null, stored: null, witness: null })).toStrictEqual({ kind: 'new' })
  })

  test('is the same where it belongs to the file beside it and has not gone back', () => {
    expect(judgeRestore({ cluster: null, stored: kept, witness: kept })).toStrictEqual({ kind: 'same' })
    // A process that died between the two notes.
    expect(judgeRestore({ cluster: null, stored: { ...kept, generation: 5 }, witness: kept })).toStrictEqual({
      kind: 'same',
    })
  })

  test.each([
    ['an older copy of it', { ...kept, generation: 3 }, kept],
    ['a copy without its file', kept, null],
    ['a copy of another folder', { ...kept, identity: 'folder:b' }, kept],
    ['a copy from before anything was noted', null, kept],
  ])('came back where it is %s', (_name, stored, witness) => {
    expect(judgeRestore({ cluster: null, stored, witness })).toMatchObject({ kind: 'restored' })
  })

  test('has come back whenever it is behind, and only then', () => {
    fc.assert(
      fc.property(fc.nat(), fc.nat(), (stored, seen) => {
        const verdict = judgeRestore({
          cluster: null,
          stored: { identity: 'folder:a', generation: stored },
          witness: { identity: 'folder:a', generation: seen },
        })
        expect(verdict.kind).toBe(stored < seen ? 'restored' : 'same')
      }),
    )
  })
})

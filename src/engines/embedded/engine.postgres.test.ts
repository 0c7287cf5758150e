import { expect, test } from 'vitest'
import { embeddedScene } from '../../../test/embedded-scene.ts'
import { engineSuite } from '../../testing/engine-suite.ts'

// An embedded database has one owner, and so one engine.
test.for(engineSuite)('three engines on one database: $name', (one) =>
  expect(one.run(embeddedScene(3))).resolves.toBeUndefined(),
)

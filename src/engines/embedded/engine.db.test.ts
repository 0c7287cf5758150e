import { expect, test } from 'vitest'
import { embeddedScene } from '../../../test/embedded-scene.ts'
import { engineSuite } from '../../testing/engine-suite.ts'

test.for(engineSuite)('$name', (one) => expect(one.run(embeddedScene(1))).resolves.toBeUndefined())

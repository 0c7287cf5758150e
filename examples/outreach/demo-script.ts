import type { Script } from 'bailiff/testing'
import { prospectScript } from './prospect-script.ts'
import { outreachScript } from './script.ts'

/** One stand-in for both agents of the demo, told apart by what they may call. */
export const demoScript: Script = (conversation) =>
  conversation.tools.includes('research_discover_people') ? prospectScript(conversation) : outreachScript(conversation)

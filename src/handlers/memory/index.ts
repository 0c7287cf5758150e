export type { Memory, MemoryStore } from './memories.ts'
export { scopedMemories } from './scoped-memories.ts'
export { memoryTools } from './tools.ts'

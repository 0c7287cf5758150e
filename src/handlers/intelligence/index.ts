export type { CompanyIntelligence, Fact, IntelligenceStore, Observation } from './intelligence.ts'
export { intelligenceTools } from './tools.ts'

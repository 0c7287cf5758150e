export { createBailiff, type Answer, type Bailiff, type BailiffOptions, type Rule } from './bailiff.ts'
export type { Approval, ApprovalFilter } from './approvals/approval-store.ts'
export type { AnswerOutcome } from './approvals/service.ts'
export type { Connection, ConnectionRecord, ConnectionState, SecretSource } from './connections/connection.ts'
export type { ConnectionProvider, OAuth2Auth, SecretAuth } from './connections/provider.ts'
export type { ConnectionService } from './connections/service.ts'
export type { KeyProvider, VaultOptions } from './connections/vault/key-provider.ts'
export type { ManagedAgents, ManagedRuns, StartManaged } from './managed.ts'
export type { ObservedEvent, Observer } from './observing/observer.ts'
export type { AdvanceBudget, Advanced } from './runs/advance.ts'
export { DEFAULT_CEILINGS, type AgentDefinition } from './runs/definition.ts'
export type { ErasureOutcome, ErasureStore } from './runs/erasure.ts'
export type { RetentionSettings } from './runs/retention.ts'
export type { Page, RunRow } from './runs/run-store.ts'
export type { SweepReport, Upkeep } from './runs/upkeep.ts'
export type { Database } from './storage/database.ts'
export { databaseUpkeep, type DatabaseUpkeepOptions } from './storage/database-upkeep.ts'
export { erasureStore } from './storage/erasure-store.ts'
export { deleteOrganization, type DeletionOutcome } from './storage/organization-deletion.ts'
export { exportOrganization, type ExportReport, type ExportRequest } from './storage/organization-export.ts'
export type { OrganizationSettings } from './storage/organization-store.ts'
export { internalTool, vendorTool, type ToolDeclaration, type ToolOptions } from './tools/declarations.ts'
export {
  ConflictError,
  ConnectionError,
  ERROR_CODES,
  NotFoundError,
  OutcomeUnknownError,
  RetryableUpstreamError,
  UpstreamUnavailableError,
  ValidationError,
  type ErrorCode,
} from './tools/errors.ts'
export type { FactRequest, FactResolver, FactType, HandlerOf, ToolHandler } from './tools/handler.ts'
export type { Actor, Credential, HandlerContext, Principal, RunCeilings, ToolInvocation } from './tools/invocation.ts'
export { ApprovalRequired, CancelRequested, ClaimInFlight, type ErrorReporter, type Logger } from './tools/invoker.ts'
export { modelToolName, ok, type HandlerAnswer, type ToolResult, type ToolSpec } from './tools/models.ts'
export { RegistryError } from './tools/registry-faults.ts'
export type { ModelPrice, PriceTable } from './usage/prices.ts'

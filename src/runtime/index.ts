export { createRuntime } from './create.ts';
export { DiskMonitor } from './disk/disk-monitor.ts';
export { Retention } from './disk/retention.ts';
export type { PassedInput, TextToRead } from './embeddings/embeddings.ts';
export { DaemonHistory, StopReports } from './health/daemon-history.ts';
export { publicHealth, publicReport } from './health/health.ts';
export { Verification } from './health/verification.ts';
export { shownData, toRecord } from './history/event-record.ts';
export { exportRun } from './history/export.ts';
export { foldRows } from './history/fold-rows.ts';
export { redactEvent } from './history/redact.ts';
export { foldRunFile, parseRunFile } from './history/run-file.ts';
export { StoredRuns } from './history/stored-runs.ts';
export { Chain, whyRun } from './history/why.ts';
export { SeparateJudge } from './judge/judge.ts';
export { logEvents } from './log-lines/log-lines.ts';
export { Counter, type Family, gauge } from './metrics/tally.ts';
export { aliasOf, loadedAliasesOf } from './models/alias.ts';
export {
  GO_HINT,
  GO_TEMPLATE,
  isGoTemplate,
  parametersOf,
  writeModelfile,
} from './models/modelfile.ts';
export type { StatusMore } from './operations/daemon.ts';
export {
  type Events,
  type OperationName,
  operations,
  type Params,
  type Results,
  rows,
} from './operations/operations.ts';
export {
  eventQuery,
  exportQuery,
  type FromQuery,
  logQuery,
  proofQuery,
  readQuery,
} from './operations/query.ts';
export {
  ACCESS,
  type Access,
  type Grpc,
  type Home,
  type HomeCall,
  type NamedToken,
  type NewToken,
  type Operation,
} from './operations/row.ts';
export { type NodesPort, OneDaemon, type Placement, type PlacementHealth } from './placement.ts';
export type { HomeRuntime, Runtime } from './port.ts';
export { HOME, type NeededScope, type Principal, requireScope } from './principal/principal.ts';
export { LOCAL, Providers } from './providers/providers.ts';
export { Pulls } from './pulls/pulls.ts';
export type { PullRecord } from './pulls/record.ts';
export { RunExecutor } from './runs/executor.ts';
export { findRun, isWholeId, mayBeId, namesIn } from './runs/find.ts';
export { newBootId, newNodeId, newRunId } from './runs/ids.ts';
export { OutputBudget } from './runs/output-recorder.ts';
export { projectEvent, projectRun, runRecord } from './runs/record.ts';
export { RecordBytes } from './runs/record-bytes.ts';
export { type RecoveryProgress, readLastBoot, recoverRuns } from './runs/recover.ts';
export { unknownRun } from './runs/run-errors.ts';
export { Scheduler } from './runs/scheduler.ts';
export { estimatedTokens } from './runs/usage-of.ts';
export type { Membership, Site, SiteOptions, SiteParts } from './site.ts';
export { servedName } from './tools/served-tools.ts';
export { ToolCalls } from './tools/tool-calls.ts';
export type { ExporterOptions, TraceExporter } from './traces/exporter.ts';
export { traceRuns } from './traces/run-trace.ts';
export { Budget } from './usage/budget.ts';

/** The exporter of traces. */
export const loadExporter = () => import('./traces/exporter.ts');

export {
  type ColumnType,
  columnOf,
  columnsText,
  EVENT_COLUMNS,
  EVENT_NAMES,
  FILTER_COLUMNS,
  RUN_COLUMNS,
  RUN_NAMES,
  type RunColumnName,
  runColumns,
} from './columns.ts';
export { checkContinuity } from './continuity.ts';
export { codeOf, isFull, notOpen } from './failure.ts';
export { logBytes, readHeader } from './files/database-file.ts';
export { ownsAny } from './files/ownership.ts';
export { isWhole, reserveFile } from './files/reserve.ts';
export { walOf } from './files/wal.ts';
export { openClosedLog } from './inspect/closed-log.ts';
export { inspectStore, type StoreContents } from './inspect/inspect.ts';
export { CONVERSATION, titleStream } from './places.ts';
export {
  type AppendResult,
  CONFLICT,
  type Commit,
  type ConversationSums,
  type DamagedRun,
  type EventStore,
  type FoundRun,
  type LogReads,
  type OpenReport,
  type PruneQuery,
  type PruneReport,
  type RunBound,
  type RunHead,
  type RunQuery,
  type RunRow,
  type SearchQuery,
  type StoredEvent,
  toEvent,
  toReads,
  type VerifiedReport,
  type VerifyReport,
} from './port.ts';
export { damagedRun } from './projection.ts';
export { pruneOrder, SAID, type SizedRun } from './prune/order.ts';
export { type Moment, oldAtSteps } from './prune/run-age.ts';
export {
  type CommitRows,
  conflict,
  type EventRow,
  fromEventRow,
  fromRunData,
  type RunLine,
  toRows,
  toRunLine,
} from './row.ts';
export { boundsQuery, kindOf } from './run-bounds.ts';
export { dataDigest, isSame } from './run-digest.ts';
export { schemaOf } from './schema.ts';
export { isBeginning } from './search-terms.ts';
export {
  formOf,
  openingOf,
  type RunForm,
  recordLength,
  SHORT_CHARACTERS,
  SHORT_RUN,
  shortRecord,
  TEXTS_ALONE,
  WHOLE_RUN,
} from './short-run.ts';
export { BEGIN, END, snippetOf } from './snippet.ts';
export { openClosedStore } from './sqlite/closed-store.ts';
export { createSqliteStore } from './sqlite/sqlite.ts';
export { RowMender, type StoreOptions } from './store.ts';
export {
  asStored,
  type Compact,
  compactEvent,
  compactRun,
  damagedText,
  digestOf,
  expand,
  hasReferences,
  REFERENCE_PATTERN,
  referencesIn,
  USES,
} from './texts.ts';
export { exportLog } from './transfer/export.ts';
export { importLog, type RowFolder } from './transfer/import.ts';
export type { LogHead, LogSource, LogTarget, UsageRow } from './transfer/port.ts';
export {
  countedOnce,
  EMBEDDINGS,
  type EmbeddingSum,
  type EmbeddingUsage,
  embeddingSum,
  LATER,
  ofRuns,
  type RunSum,
  type RunUsage,
  rowsOf,
  USAGE,
} from './usage.ts';
export {
  DAY_ROWS_MAX,
  firstHour,
  HOUR_MAX,
  HOUR_MS,
  HOUR_ROWS_MAX,
  HOURS_KEPT,
  largestSums,
  NAME_CHARS_MAX,
  OTHER_CLIENTS,
  OTHER_MODELS,
  type Shape,
  SUMS_MAX,
  typeOf,
  type UsageQuery,
  type UsageSum,
  type UsageSums,
} from './usage-sums.ts';

/** The log of a file as a source of records, and as their target. */
export const loadFileSource = () => import('./sqlite/export.ts');
export const loadFileTarget = () => import('./sqlite/import.ts');

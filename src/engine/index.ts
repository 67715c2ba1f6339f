export { ENGINE, INSPECTION, PROBE } from './entries.ts';
export {
  HASHED_BYTES_MAX,
  invalidModel,
  type ModelDescription,
  type ModelInspection,
  type ModelMetadata,
  type Question,
} from './inspect/inspection.ts';
export { readMeasured } from './measured/file.ts';
export type { Adapter } from './native/adapters.ts';
export { PromptFiles } from './prompt-files.ts';
export { type FromEngine, type Output, parseFromEngine } from './protocol/from-engine.ts';
export {
  ATTENTION,
  type Batching,
  type EmbedOrder,
  type GpuLayers,
  keyOf,
  type LoadOrder,
  type Purpose,
  type ReadOrder,
  type RunOrder,
  type ToEngine,
} from './protocol/messages.ts';
export { textOfNamed } from './template/named.ts';

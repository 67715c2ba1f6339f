export {
  findKnown,
  isShortName,
  type KnownModel,
  knownModels,
  nameOfKnown,
  searchKnown,
} from './catalogue.ts';
export { checkGguf, readHeader } from './gguf/check.ts';
export {
  isCompanion,
  isProjector,
  modelOfProjector,
  projectorName,
  stemOf,
} from './gguf/companions.ts';
export { type Entries, type GgufHeader, invalidError, otherKindOf, whyOf } from './gguf/header.ts';
export {
  type FilesOfModel,
  filesOfModel,
  firstPartOf,
  NotAFile,
  partsOf,
  withoutPart,
} from './gguf/parts.ts';
export { sha256Of } from './gguf/sha256.ts';
export { FILE_TYPES, GGUF_MAGIC, isGguf } from './gguf/tensors.ts';
export { HubClient } from './hub/client.ts';
export { isAllowed } from './hub/reference.ts';
export { type Archive, fetchArchive, findArchive, refuseOther } from './hub/release.ts';
export {
  type ContextPlan,
  defaultBudget,
  fitOf,
  freeMemory,
  type MemoryThere,
  type ModelShape,
  PROCESS_BYTES,
  planFor,
  shapeOf,
  weightsOf,
} from './memory-needs.ts';
export { namesFrom, shortName, unknownModel } from './model-names.ts';
export { findPulled, type Origin, Origins } from './origins.ts';
export { Puller } from './puller.ts';

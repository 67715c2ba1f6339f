export { keepsContent, strippingStore } from './content.ts';
export { type Elsewhere, NobodyElse, type Watch } from './elsewhere.ts';
export {
  EventPages,
  type EventSlice,
  type PagedEvent,
  type PageForm,
  type Sized,
} from './event-pages.ts';
export { followStream, type RunFollowing } from './feed.ts';
export { foldCount, foldEvent, foldStream } from './fold.ts';
export { Instance, sizeInMemory } from './instance.ts';
export { Kernel } from './kernel.ts';
export { followLog } from './log-feed.ts';
export { LogTail } from './log-tail.ts';
export { pagesOf, streamOf } from './pages.ts';
export { machineOf, unknownKind } from './registry.ts';
export {
  type ConversationKey,
  type DaemonKey,
  type EngineKey,
  isDaemon,
  isEngine,
  isRun,
  type LeaseKey,
  type Proposal,
  type ProviderKey,
  type PullKey,
  type RunKey,
  type SnapshotOf,
  type StreamKey,
  stream,
  streamPort,
} from './stream.ts';

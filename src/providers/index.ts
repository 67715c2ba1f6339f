export { createRemote } from './adapters.ts';
export type { FoundServer } from './discover.ts';
export type { EnginePorts } from './local/engines.ts';
export type { ByModel } from './local/models.ts';
export { createLocalProvider } from './local/provider.ts';
export { OtherModels } from './local/stores/others.ts';

/** Servers of models that run on this machine. */
export const loadDiscovery = () => import('./discover.ts');

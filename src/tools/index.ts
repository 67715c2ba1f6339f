export { isAuthorized, launchOf, withValues } from './launch.ts';
export type { Revocation } from './revocation.ts';
export { type McpMachines, McpServers } from './servers.ts';
export { cutBytes } from './tool-list.ts';

/** A person logs in at a tool server. */
export const loadSignIn = () => import('./sign-in.ts');
/** A login ends where it came from. */
export const loadRevocation = () => import('./revocation.ts');

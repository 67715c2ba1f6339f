import { dialectRoutes, dialectSockets } from '../dialects/index.ts';
import { httpRoutes, mcpRoute, type Route, type SocketRoute } from '../transport/index.ts';

/** All routes, of every API. docs/http.md has this table, and /openapi.json describes it. */
export const routes: readonly Route[] = [...httpRoutes, ...dialectRoutes, mcpRoute];

export const socketRoutes: readonly SocketRoute[] = dialectSockets;

import { dialectRoutes, dialectSockets } from '../dialects/index.ts';
import type { Route } from '../transport/http/route.ts';
import { httpRoutes } from '../transport/http/routes.ts';
import { mcpRoute } from '../transport/mcp/route.ts';
import type { SocketRoute } from '../transport/socket-route.ts';

/** All routes, of every API. docs/http.md has this table, and /openapi.json describes it. */
export const routes: readonly Route[] = [...httpRoutes, ...dialectRoutes, mcpRoute];

export const socketRoutes: readonly SocketRoute[] = dialectSockets;

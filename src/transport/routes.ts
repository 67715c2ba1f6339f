import { anthropicRoutes } from './anthropic/messages.ts';
import type { Route } from './http/route.ts';
import { httpRoutes } from './http/routes.ts';
import { mcpRoute } from './mcp/route.ts';
import { ollamaRoutes } from './ollama/routes.ts';
import { conversationRoutes } from './openai/conversations.ts';
import { openaiError } from './openai/parts.ts';
import { responseRoutes } from './openai/responses/routes.ts';
import { responseSocket } from './openai/responses/socket.ts';
import { openaiRoutes } from './openai/routes.ts';
import type { SocketRoute } from './socket-route.ts';

/** All routes, of every API. docs/http.md has this table, and /openapi.json describes it. */
export const routes: readonly Route[] = [
  ...httpRoutes,
  ...[...openaiRoutes, ...responseRoutes, ...conversationRoutes].map(asOpenai),
  ...anthropicRoutes,
  ...ollamaRoutes,
  mcpRoute,
];

/** The WebSockets of the APIs of others. */
export const talks: readonly SocketRoute[] = [responseSocket];

function asOpenai(route: Route): Route {
  return { errors: openaiError, ...route };
}

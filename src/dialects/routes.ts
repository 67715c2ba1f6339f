import type { Route } from '../transport/http/route.ts';
import type { SocketRoute } from '../transport/socket-route.ts';
import { anthropicRoutes } from './anthropic/messages.ts';
import { ollamaRoutes } from './ollama/routes.ts';
import { conversationRoutes } from './openai/conversations.ts';
import { openaiError } from './openai/parts.ts';
import { responseRoutes } from './openai/responses/routes.ts';
import { responseSocket } from './openai/responses/socket.ts';
import { openaiRoutes } from './openai/routes.ts';

/** The routes of the APIs of OpenAI, Anthropic and Ollama. */
export const dialectRoutes: readonly Route[] = [
  ...[...openaiRoutes, ...responseRoutes, ...conversationRoutes].map(asOpenai),
  ...anthropicRoutes,
  ...ollamaRoutes,
];

/** The WebSockets of these APIs. */
export const dialectSockets: readonly SocketRoute[] = [responseSocket];

function asOpenai(route: Route): Route {
  return { errors: openaiError, ...route };
}

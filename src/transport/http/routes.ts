import { catalogRoutes } from './catalog.ts';
import { consoleRoutes } from './console-files.ts';
import { healthRoutes } from './health.ts';
import { lifecycleRoutes } from './lifecycle.ts';
import { machineRoutes } from './machines.ts';
import { openapiRoutes } from './openapi/openapi.ts';
import type { Route } from './route.ts';
import { runHistoryRoutes } from './run-history.ts';
import { runRoutes } from './runs.ts';
import { sessionRoutes } from './session.ts';
import { socketRoutes } from './sockets.ts';
import { stateRoutes } from './state.ts';

/** The routes of svc's own API. */
export const httpRoutes: readonly Route[] = [
  ...healthRoutes,
  ...lifecycleRoutes,
  ...runRoutes,
  ...runHistoryRoutes,
  ...catalogRoutes,
  ...machineRoutes,
  ...stateRoutes,
  ...socketRoutes,
  ...sessionRoutes,
  ...openapiRoutes,
  ...consoleRoutes,
];

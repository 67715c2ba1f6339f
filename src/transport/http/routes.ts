import { catalogRoutes } from './catalog/catalog.ts';
import { changeRoutes } from './catalog/changes.ts';
import { loadedModelRoutes } from './catalog/loaded-models.ts';
import { nodeRoutes } from './catalog/nodes.ts';
import { consoleRoutes } from './console-files.ts';
import { healthRoutes } from './health.ts';
import { machineRoutes } from './machines.ts';
import { metricsRoutes } from './metrics.ts';
import { openapiRoutes } from './openapi/openapi.ts';
import type { Route } from './route.ts';
import { runHistoryRoutes } from './run-history.ts';
import { runRoutes } from './runs.ts';
import { runtimeRoutes } from './runtime.ts';
import { sessionRoutes } from './session-routes.ts';
import { settingRoutes } from './settings.ts';
import { socketRoutes } from './sockets.ts';

/** The routes of svc's own API. */
export const httpRoutes: readonly Route[] = [
  ...healthRoutes,
  ...metricsRoutes,
  ...runtimeRoutes,
  ...runRoutes,
  ...runHistoryRoutes,
  ...catalogRoutes,
  ...loadedModelRoutes,
  ...nodeRoutes,
  ...changeRoutes,
  ...settingRoutes,
  ...machineRoutes,
  ...socketRoutes,
  ...sessionRoutes,
  ...openapiRoutes,
  ...consoleRoutes,
];

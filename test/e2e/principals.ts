/**
 * Who may do what: the table of SECURITY.md, which `principals.test.ts` holds the daemon to. Each
 * route, method of gRPC, WebSocket and tool of `/mcp` has one row.
 */

/** `own` and `other`: of a token with the scope `run`, at what it asked and what others asked. */
export const ASKERS = ['none', 'read', 'own', 'other', 'approve', 'admin', 'home'] as const;
export type Asker = (typeof ASKERS)[number];

/**
 * `401`, `403` and `404` are refusals. `own`: yes, and it has nothing that others asked. `part`: no
 * address, no time of a run.
 */
export type Outcome = 'yes' | 'own' | 'part' | 401 | 403 | 404;

export interface Group {
  what: string;
  outcomes: Readonly<Record<Asker, Outcome>>;
  http: readonly string[];
  grpc: readonly string[];
  /** Paths of WebSockets. */
  ws: readonly string[];
  /** Tools of `/mcp`. */
  tools?: readonly string[];
}

/** A token that approves sees of other runs as much as one with `run`. */
function outcomes(
  read: Outcome,
  own: Outcome,
  other: Outcome,
  approve: Outcome = other,
): Group['outcomes'] {
  return { none: 401, read, own, other, approve, admin: 'yes', home: 'yes' };
}

export const groups: Readonly<Record<string, Group>> = {
  open: {
    what: 'Ask whether it lives and is ready, and for its description; load the console, sign in and out',
    outcomes: { ...outcomes('yes', 'yes', 'yes'), none: 'yes' },
    http: [
      'GET /livez',
      'GET /readyz',
      'GET /openapi.json',
      'GET /',
      'GET /console/*',
      'GET /v1/session/proof',
      'POST /v1/session',
      'DELETE /v1/session',
    ],
    grpc: [],
    ws: [],
  },
  report: {
    what: 'Read the report of its health',
    outcomes: { ...outcomes('yes', 'yes', 'yes'), none: 'part' },
    http: ['GET /v1/runtime/health'],
    grpc: [],
    ws: [],
  },
  daemon: {
    what: 'See the state of the daemon, its providers and models',
    outcomes: outcomes('yes', 'yes', 'yes'),
    http: [
      'GET /v1/providers',
      'GET /v1/models',
      'GET /v1/models/:id',
      'GET /v1/models/:provider/*',
      'GET /v1/models/loaded',
      'GET /v1/nodes',
      'GET /v1/machines/:name/diagram',
      'GET /v1/session',
      'GET /api/tags',
      'GET /api/ps',
      'POST /api/show',
      'GET /api/version',
      // Each of its tools needs what its operation needs.
      'POST /mcp',
    ],
    grpc: ['Models', 'Providers', 'Nodes', 'Status', 'WatchStatus'],
    ws: [],
    tools: ['list_models', 'list_providers', 'status'],
  },
  lists: {
    what: 'List, search, and sum what was used',
    outcomes: outcomes('yes', 'own', 'own'),
    http: ['GET /v1/runs', 'GET /v1/runs/search', 'GET /v1/conversations', 'GET /v1/usage'],
    grpc: ['List', 'Search'],
    ws: [],
    tools: ['list_runs', 'search_runs', 'usage'],
  },
  sees: {
    what: 'See and follow one run, response or conversation',
    outcomes: outcomes('yes', 'yes', 404),
    http: [
      'GET /v1/runs/:id',
      'GET /v1/runs/:id/events',
      'GET /v1/runs/:id/why',
      'GET /v1/runs/:id/export',
      'GET /v1/responses/:id',
      'GET /v1/responses/:id/input_items',
      'GET /v1/conversations/:id',
      'GET /v1/conversations/:id/usage',
      'GET /v1/conversations/:id/items',
      'GET /v1/conversations/:id/items/:item',
    ],
    grpc: ['Get', 'Attach', 'ConversationUsage'],
    ws: [],
    tools: ['show_run', 'why_run'],
  },
  changes: {
    what: 'Cancel, change or delete one',
    outcomes: outcomes(403, 'yes', 404, 403),
    http: [
      'POST /v1/runs/:id/cancel',
      'DELETE /v1/runs/:id',
      'POST /v1/responses/:id/cancel',
      'DELETE /v1/responses/:id',
      'POST /v1/conversations/:id',
      'DELETE /v1/conversations/:id',
      'POST /v1/conversations/:id/items',
      'DELETE /v1/conversations/:id/items/:item',
    ],
    grpc: ['Cancel', 'Remove'],
    ws: [],
  },
  asks: {
    what: 'Ask a model, count tokens, embed, rank documents, pass a request on, load a model of the list',
    outcomes: outcomes(403, 'yes', 'yes', 403),
    http: [
      'POST /v1/runs',
      'POST /v1/chat/completions',
      'POST /v1/completions',
      'POST /v1/messages',
      'POST /v1/messages/count_tokens',
      'POST /v1/responses',
      'GET /v1/responses',
      'POST /v1/responses/input_tokens',
      'POST /v1/responses/compact',
      'POST /v1/embeddings',
      'POST /v1/audio/transcriptions',
      'POST /v1/images/generations',
      'POST /v1/rerank',
      'POST /v2/rerank',
      'POST /rerank',
      'POST /tokenize',
      'POST /detokenize',
      'POST /apply-template',
      'POST /infill',
      'GET /props',
      'POST /v1/conversations',
      'POST /v1/models/load',
      'POST /v1/models/unload',
      'POST /api/chat',
      'POST /api/generate',
      'POST /api/embed',
      'POST /api/embeddings',
      'POST /api/push',
      'POST /api/blobs/:digest',
    ],
    grpc: ['Run', 'Rerank'],
    ws: ['/v1/responses'],
    tools: ['ask'],
  },
  approves: {
    what: 'See the calls of tools that wait for a person, and decide about them',
    outcomes: outcomes(403, 403, 403, 'yes'),
    http: [
      'GET /v1/approvals',
      'GET /v1/approvals/events',
      'GET /v1/approvals/:id',
      'POST /v1/approvals/:id',
    ],
    grpc: ['Approvals', 'WatchApprovals', 'GetApproval', 'Decide'],
    ws: [],
  },
  whole: {
    what: 'See the whole: event log, log of the daemon, its whole state, figures of all, tool servers',
    outcomes: outcomes('yes', 403, 403),
    http: [
      'GET /v1/machines',
      'GET /v1/runtime/state',
      'GET /v1/events',
      'GET /v1/logs',
      'GET /v1/mcp',
      'GET /metrics',
    ],
    grpc: [],
    ws: ['/v1/events', '/v1/logs'],
  },
  admin: {
    what: 'Change models, providers, settings or the daemon',
    outcomes: outcomes(403, 403, 403),
    http: [
      'POST /v1/models/pull',
      'POST /v1/models/remove',
      'POST /v1/providers',
      'DELETE /v1/providers/:id',
      'POST /v1/providers/:id/test',
      'POST /v1/providers/:id/default',
      'GET /v1/settings',
      'POST /v1/settings/apply',
      'POST /v1/nodes/:id/drain',
      'POST /v1/runtime/events',
      'POST /v1/mcp/:name/test',
      'POST /api/pull',
      'POST /api/create',
      'POST /api/copy',
      'DELETE /api/delete',
    ],
    grpc: ['DrainNode', 'Stop'],
    ws: [],
  },
};

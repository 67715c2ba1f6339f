import { node, nodeList } from '../../../contract/nodes.ts';
import { sendJson } from '../reply.ts';
import { type Context, type Route, route } from '../route.ts';

/** The daemons that share the log of this one. */
export const nodeRoutes: readonly Route[] = [
  route({
    method: 'GET',
    path: '/v1/nodes',
    access: 'token',
    summary: 'Nodes of the fleet, with their leases. Empty: the daemon has its log alone.',
    answers: { 200: nodeList },
    answer: async ({ res, runtime }: Context) => sendJson(res, 200, await runtime.nodes.list()),
  }),
  route({
    method: 'POST',
    path: '/v1/nodes/:id/drain',
    access: 'token',
    scope: 'admin',
    summary: 'Asks a node to finish its work and stop.',
    answers: { 200: node },
    answer: async ({ req, res, runtime }: Context) =>
      sendJson(res, 200, await runtime.nodes.drain(req.params.id ?? '')),
  }),
];

import * as v from 'valibot';
import { mcpServers, mcpServerTools } from '../contract/mcp.ts';
import { name } from '../contract/vocabulary.ts';
import { operation } from './row.ts';

/**
 * The operations on tool servers. No request adds or changes a server: that would let a token start
 * any program.
 */

const one = v.object({ name: name(64) });

export const mcpOperations = {
  'mcp.list': operation({
    summary: 'The tool servers, and their states. None is started.',
    answers: '`servers` of tools with their states',
    result: mcpServers,
    access: 'read',
    method: 'mcp.list',
    http: 'GET /v1/mcp',
    call: ({ runtime }) => runtime.mcp.list(),
  }),
  'mcp.show': operation({
    answers: 'the server with its tools. It is started for that',
    params: one,
    access: 'admin',
    call: ({ runtime, signal }, { name }) => runtime.mcp.show(name, false, signal),
  }),
  'mcp.test': operation({
    summary: 'Starts a tool server, and lists its tools.',
    answers: 'the server with its tools, started at once',
    params: one,
    result: mcpServerTools,
    access: 'admin',
    method: 'mcp.show',
    http: 'POST /v1/mcp/:name/test',
    call: ({ runtime, signal }, { name }) => runtime.mcp.show(name, true, signal),
  }),
  'mcp.stop': operation({
    answers: '`stopped`: the server, which the next call starts, as after a login',
    params: one,
    access: 'admin',
    method: 'mcp.stop',
    call: async ({ runtime }, { name }) => {
      runtime.mcp.stop(name);
      return { stopped: name };
    },
  }),
  'mcp.allow': operation({
    answers: '`allowed`: the tool, whose calls are allowed while it stays as it is',
    params: v.object({ name: name(64), tool: name(128) }),
    access: 'admin',
    method: 'mcp.allowAlways',
    call: async ({ runtime }, { name, tool }) => {
      await runtime.mcp.allowAlways(name, tool);
      return { allowed: tool };
    },
  }),
};

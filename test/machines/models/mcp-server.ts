import type { Failure } from '../../../machines/events.ts';
import {
  FAILURES_COUNTED,
  type McpServerCreated,
  type McpServerEvent,
  type McpServerSnapshot,
  mcpServerMachine,
} from '../../../machines/mcp-server.ts';
import { type Model, model, NOW } from './model.ts';

const broken: Failure = { code: 'mcp_unavailable', message: 'It broke.', retryable: true };
const wrong: Failure = { code: 'mcp_unavailable', message: 'No such program.', retryable: false };
const info = { pid: 7, server: 'files 1.0', protocol: '2025-06-18', tools: 3, left_out: 0 };
const created: McpServerCreated = {
  type: 'mcp.created',
  at: NOW - 1000,
  name: 'files',
  number: 1,
  transport: 'stdio',
  start_ms: 3000,
  stop_ms: 2000,
  idle_ms: 60_000,
};

export function mcpServerModel(): Model {
  return model<McpServerSnapshot>({
    name: 'mcp',
    machine: mcpServerMachine,
    created,
    samples: ({ context: { attempt } }): McpServerEvent[] => [
      ...[attempt, attempt + 1, attempt + 2].map(
        (of): McpServerEvent => ({ type: 'mcp.start_requested', at: NOW, attempt: of }),
      ),
      ...[attempt, attempt - 1, attempt + 1].flatMap((of): McpServerEvent[] => [
        { type: 'mcp.ready', at: NOW, attempt: of, info },
        { type: 'mcp.tools_listed', at: NOW, attempt: of, info },
        { type: 'mcp.start_failed', at: NOW, attempt: of, error: broken },
        { type: 'mcp.start_failed', at: NOW, attempt: of, error: wrong },
        { type: 'mcp.deadline_passed', at: NOW, attempt: of },
        { type: 'mcp.ended', at: NOW, attempt: of, exit_code: 1, signal: null },
      ]),
      { type: 'mcp.call_started', at: NOW },
      { type: 'mcp.call_finished', at: NOW },
      { type: 'mcp.stop_requested', at: NOW, reason: 'idle' },
      { type: 'mcp.stop_requested', at: NOW, reason: 'requested' },
      { type: 'mcp.wait_ended', at: NOW },
    ],
    key: ({ value, context }) =>
      JSON.stringify([
        value,
        Math.min(2, context.attempt),
        Math.min(FAILURES_COUNTED, context.failures),
      ]),
    stop: { type: 'mcp.stop_requested', at: NOW, reason: 'requested' },
    isOver: (snapshot) => snapshot.hasTag('absent') && !snapshot.hasTag('failing'),
    least: { states: 40, edges: 150, refused: 500 },
  });
}

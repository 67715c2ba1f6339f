import type { AnyStateMachine } from 'xstate';
import { conversationMachine } from './conversation.ts';
import { daemonMachine } from './daemon/chart.ts';
import { engineMachine } from './engine.ts';
import { leaseMachine } from './lease.ts';
import { mcpServerMachine } from './mcp-server.ts';
import { providerMachine } from './provider/chart.ts';
import { pullMachine } from './pull.ts';
import { runMachine } from './run/chart.ts';
import { toolCallMachine } from './tool-call.ts';

/** Every machine, in the order in which they are best read. */
export const machines: readonly AnyStateMachine[] = [
  daemonMachine,
  runMachine,
  toolCallMachine,
  providerMachine,
  engineMachine,
  pullMachine,
  mcpServerMachine,
  leaseMachine,
  conversationMachine,
];

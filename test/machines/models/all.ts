import { conversationModel } from './conversation.ts';
import { daemonModel } from './daemon.ts';
import { engineModel } from './engine.ts';
import { leaseModel } from './lease.ts';
import { mcpServerModel } from './mcp-server.ts';
import type { Model } from './model.ts';
import { faultyModelsModel, providerModel } from './provider.ts';
import { pullModel } from './pull.ts';
import { runModel } from './run.ts';
import { toolCallModel } from './tool-call.ts';

/** One model per recovery policy, kind of provider and content of the log. */
export const runModels: readonly Model[] = [
  runModel({
    recovery: 'resume',
    resumable: true,
    max_attempts: 2,
    max_losses: 2,
    outputs: 2,
    least: { states: 305, edges: 722, refused: 10563 },
  }),
  runModel({
    recovery: 'resume',
    resumable: false,
    max_attempts: 3,
    max_losses: 1,
    outputs: 2,
    least: { states: 208, edges: 426, refused: 7270 },
  }),
  runModel({
    recovery: 'restart',
    resumable: false,
    max_attempts: 2,
    max_losses: 1,
    outputs: 1,
    least: { states: 165, edges: 397, refused: 5708 },
  }),
  runModel({
    recovery: 'end',
    resumable: true,
    max_attempts: 3,
    max_losses: 1,
    outputs: 2,
    least: { states: 117, edges: 201, refused: 4128 },
  }),
  runModel({
    recovery: 'restart',
    resumable: false,
    omitted: true,
    max_attempts: 2,
    max_losses: 1,
    outputs: 1,
    least: { states: 61, edges: 103, refused: 2154 },
  }),
  runModel({
    recovery: 'resume',
    resumable: false,
    fallbacks: [{ provider: 'near', model: 'm1', cloud: false }],
    max_attempts: 2,
    max_losses: 1,
    outputs: 1,
    least: { states: 1, edges: 1, refused: 1 },
  }),
  runModel({
    recovery: 'resume',
    resumable: false,
    max_attempts: 1,
    max_losses: 1,
    outputs: 1,
    asks_again: true,
    least: { states: 1, edges: 1, refused: 1 },
  }),
  runModel({
    recovery: 'resume',
    resumable: true,
    max_attempts: 1,
    max_losses: 1,
    outputs: 1,
    calls: 2,
    least: { states: 650, edges: 2600, refused: 28_000 },
  }),
];

/** Every machine, at the bounds within which its graph is walked whole. */
export const models: readonly Model[] = [
  daemonModel(3),
  // With one place the first run takes the last one.
  { ...daemonModel(1), name: 'daemon (one place)', least: { states: 29, edges: 99, refused: 580 } },
  ...runModels,
  providerModel({ kind: 'local', failure_limit: 3 }),
  providerModel({ kind: 'cloud', failure_limit: 3 }),
  // With a limit of one the first failure is one too many.
  {
    ...providerModel({ kind: 'local', failure_limit: 1 }),
    name: 'provider (one failure)',
    least: { states: 32, edges: 91, refused: 517 },
  },
  faultyModelsModel(1),
  engineModel(),
  pullModel(3),
  mcpServerModel(),
  leaseModel(),
  conversationModel(),
  toolCallModel(),
];

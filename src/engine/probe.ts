import { availableParallelism } from 'node:os';
import { startLlama } from './open-model.ts';

/**
 * A separate process: loads llama.cpp as the engine does, and prints what computes. Its argument is
 * the folder of builds for graphics cards.
 */
const [, , builds] = process.argv;
const { gpu } = startLlama({ gpu_layers: 'auto', template_ms: 0, ...(builds ? { builds } : {}) });
console.log(JSON.stringify({ gpu: gpu ?? false, cores: availableParallelism() }));
process.exit(0);

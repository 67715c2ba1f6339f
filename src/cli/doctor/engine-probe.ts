import { existsSync } from 'node:fs';
import { enableCompileCache } from 'node:module';

/**
 * A separate process: loads llama.cpp as the engine does, and prints its build and its cores. Its
 * argument is the folder of the code that the engine has compiled; it makes none.
 */
const [, , compiled = ''] = process.argv;
if (existsSync(compiled)) enableCompileCache(compiled);
const { getLlama } = await import('node-llama-cpp');
const llama = await getLlama({ gpu: 'auto', build: 'never', progressLogs: false });
console.log(JSON.stringify({ gpu: llama.gpu, cores: llama.cpuMathCores }));
await llama.dispose();

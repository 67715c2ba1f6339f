import { getLlama } from 'node-llama-cpp';

/** A separate process: loads llama.cpp as the engine does, and prints its build and its cores. */
const llama = await getLlama({ gpu: 'auto', build: 'never', progressLogs: false });
console.log(JSON.stringify({ gpu: llama.gpu, cores: llama.cpuMathCores }));
await llama.dispose();

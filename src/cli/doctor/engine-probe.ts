import { getLlama } from 'node-llama-cpp';

/** A process of its own: loads llama.cpp as the engine does, and prints which build it is and how many cores it counts. */
const llama = await getLlama({ gpu: 'auto', build: 'never', progressLogs: false });
console.log(JSON.stringify({ gpu: llama.gpu, cores: llama.cpuMathCores }));
await llama.dispose();

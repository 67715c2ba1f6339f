export { createSdkProvider } from './ai-sdk/provider.ts';
export { createRemoteProvider } from './openai/provider.ts';
export { NO_FILES, placeFiles } from './remote/result-files.ts';

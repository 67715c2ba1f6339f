export { createGrpc } from './server.ts';

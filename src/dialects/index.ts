export { dialectRoutes, dialectSockets } from './routes.ts';

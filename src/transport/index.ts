export type { Holder } from './auth/holder.ts';
export { buildSignIn } from './auth/sign-in.ts';
export { removeSignInPages, writeSignInPage } from './auth/sign-in-page.ts';
export { createTokenAccess, type TokenAccess } from './auth/token-access.ts';
export { cancelWhenGone } from './cancel-when-gone.ts';
export {
  type CallOptions,
  type ConnectOptions,
  type ControlClient,
  connect,
} from './control/client.ts';
export { isServed } from './control/is-served.ts';
export { createMethods } from './control/methods.ts';
export type { Method, Params, Results } from './control/protocol.ts';
export { ControlServer } from './control/server.ts';
export { parse, readForm } from './http/body.ts';
export { IgnoredFields } from './http/ignored-fields.ts';
export { sendLarge } from './http/large.ts';
export { jsonHeaders, sendJson } from './http/reply.ts';
export { type Context, type Route, route } from './http/route.ts';
export { httpRoutes } from './http/routes.ts';
export {
  answerEndSignal,
  CLIENT,
  clientGoneSignal,
  clientOf,
  requestOver,
  withKey,
} from './http/run-request.ts';
export { createHttp } from './http/server.ts';
export type { Envelope } from './http-error.ts';
export { listen } from './listen.ts';
export { mcpRoute } from './mcp/route.ts';
export { mcpServer } from './mcp/server.ts';
export { type OfferedTool, type Perform, toolsOver } from './mcp/tools.ts';
export { createRefusals } from './refusals.ts';
export { ServedCertificate } from './served-certificate.ts';
export type { SocketRoute, Talk } from './socket-route.ts';
export { eventData, followWithWaits } from './stream/event-forms.ts';
export { textLength } from './stream/json-pieces.ts';
export { cutReasonOf, type Live, type LiveOptions, sendLive } from './stream/live.ts';
export { onAbort } from './stream/on-abort.ts';
export { readEnd } from './stream/stream-end.ts';
export { type Outflow, PIECE_BYTES, type SharedBytes, UnsentBytes } from './stream/unsent-bytes.ts';
export { pieceWriter } from './stream/write-pieces.ts';
export { attachSockets } from './ws/upgrade.ts';

/** The doctor starts without it. */
export const loadTokenFile = () => import('./auth/token-file.ts');

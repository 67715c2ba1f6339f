import type { Dispatcher } from 'undici';
import { type ErrorCode, SvcError } from '../errors.ts';
import type { Limits } from '../limits.ts';

export interface DispatcherOptions {
  env: NodeJS.ProcessEnv;
  limits: Limits;
  /** Ignore the proxy variables. */
  direct?: boolean;
  /** Connections to one origin. Default: no bound. */
  connections?: number;
  /** The code for a proxy variable that is not an address. */
  proxyError: ErrorCode;
}

/**
 * Creates the undici dispatcher for requests to another machine.
 *
 * 1. The state machines own the timeouts, so undici waits for headers and body without a limit.
 * 2. The proxy variables apply to other machines only, never to loopback addresses.
 */
export async function createDispatcher({
  env,
  limits,
  direct = false,
  connections,
  proxyError,
}: DispatcherOptions): Promise<Dispatcher> {
  const { Agent, EnvHttpProxyAgent } = await import('undici');
  const connect = { timeout: limits.provider_connect_ms };
  const options = {
    ...(connections === undefined ? {} : { connections }),
    headersTimeout: 0,
    bodyTimeout: 0,
    maxHeaderSize: limits.provider_header_bytes,
    connect,
  };
  const httpProxy = env.http_proxy ?? env.HTTP_PROXY ?? '';
  const httpsProxy = env.https_proxy ?? env.HTTPS_PROXY ?? '';
  if (direct || (httpProxy === '' && httpsProxy === '')) return new Agent(options);
  const noProxy = [env.no_proxy ?? env.NO_PROXY ?? '', ...LOOPBACK].filter(Boolean).join(',');
  try {
    return new EnvHttpProxyAgent({
      ...options,
      httpProxy,
      httpsProxy,
      noProxy,
      proxyTls: connect,
      requestTls: connect,
    });
  } catch (cause) {
    throw new SvcError(proxyError, 'The proxy variable of the environment is not an address.', {
      retryable: false,
      cause,
    });
  }
}

const LOOPBACK = ['localhost', '127.0.0.1', '::1'];

import { createHash, randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server';

/**
 * A tool server that asks for a login, and the authorization server that it names, at two ports of
 * this machine. The first is that of the official package.
 */
export interface LoginServers {
  /** Of the tool server. */
  url: string;
  /** Of the authorization server. */
  issuer: string;
  /** The requests of the authorization server, with the fields of each. */
  asked: { path: string; fields: Record<string, string>; authorization: string | undefined }[];
  /** The headers of each request to the tool server. */
  headers: IncomingMessage['headers'][];
  /** Executed calls of its tool `say`. */
  said: string[];
  /** All tokens so far. */
  issued: string[];
  /** Tokens that the tool server accepts, and those that a refresh takes. */
  access: Set<string>;
  refresh: Set<string>;
  /** What the test changes. */
  does: {
    expires_in: number | undefined;
    denies: boolean;
    /** Of the document of RFC 9728, and of RFC 8414. */
    resource: object;
    metadata: object;
    /** The tool server names no authorization server, and serves metadata with this. */
    own: { issuer: string } | null;
    /** Methods of the tool server that need no token. */
    free: readonly string[];
    /** The scope that a method needs. A token without it gets a 403. */
    needs: Record<string, string>;
    /** In the 401 of the tool server. */
    scope: string | undefined;
    /** The scopes that a login gets, of those that it asks for. */
    grants(scope: string): string;
    /** The secret of the client. Null: it needs none. */
    secret: string | null;
    /** Answers in the place of the authorization server. True: it has. */
    instead(path: string, res: ServerResponse): boolean;
    /** Before it answers a request for a token. */
    before(): Promise<unknown>;
  };
  close(): void;
}

export async function loginServers(): Promise<LoginServers> {
  const issued: string[] = [];
  const codes = new Map<string, { challenge: string; redirect: string; scope: string }>();
  const scopes = new Map<string, string>();
  const { access, refresh } = { access: new Set<string>(), refresh: new Set<string>() };
  const [asked, headers, said]: [LoginServers['asked'], LoginServers['headers'], string[]] = [
    [],
    [],
    [],
  ];
  const does: LoginServers['does'] = {
    expires_in: 3600,
    denies: false,
    resource: {},
    metadata: {},
    own: null,
    free: [],
    needs: {},
    scope: undefined,
    grants: (scope) => scope,
    secret: null,
    instead: () => false,
    before: async () => {},
  };
  const { fetch } = createMcpHandler(() => {
    const server = new McpServer({ name: 'locked', version: '1' }, { capabilities: { tools: {} } });
    server.registerTool('say', { description: 'Says something.' }, async () => {
      said.push('said');
      return { content: [{ type: 'text' as const, text: 'said' }] };
    });
    return server;
  });

  const tools = await listen(async (req, res) => {
    const body = await textOf(req);
    const { pathname } = new URL(req.url ?? '/', tools.origin);
    if (does.own !== null && pathname.startsWith('/.well-known/'))
      return pathname === '/.well-known/oauth-authorization-server'
        ? json(res, 200, { ...metadata(), ...does.own })
        : json(res, 404, {});
    if (pathname.startsWith('/.well-known/oauth-protected-resource'))
      return json(res, 200, {
        resource: `${tools.origin}/mcp`,
        authorization_servers: [signIn.origin],
        scopes_supported: ['speak'],
        ...does.resource,
      });
    headers.push(req.headers);
    const [, token = ''] = /^Bearer (.+)$/.exec(req.headers.authorization ?? '') ?? [];
    const method = req.method === 'POST' ? String(JSON.parse(body).method) : '';
    const place = `${tools.origin}/.well-known/oauth-protected-resource/mcp`;
    const refuse = (status: number, ...more: string[]) => {
      const said = [`resource_metadata="${place}"`, ...more].join(', ');
      res.setHeader('www-authenticate', `Bearer ${said}`);
      json(res, status, { error: 'refused', token });
    };
    if (!access.has(token) && !does.free.includes(method))
      return refuse(401, ...(does.scope === undefined ? [] : [`scope="${does.scope}"`]));
    const needed = does.needs[method];
    if (needed !== undefined && !scopes.get(token)?.split(' ').includes(needed))
      return refuse(403, 'error="insufficient_scope"', `scope="${needed}"`);
    if (req.method !== 'POST') return void res.writeHead(405).end();
    const own = Object.entries(req.headers).map(([name, value]): [string, string] => [
      name,
      `${value}`,
    ]);
    const request = new Request(`${tools.origin}/mcp`, {
      method: 'POST',
      headers: new Headers(own.filter(([name]) => !/^(connection|content-length)$/.test(name))),
      body,
    });
    const answer = await fetch(request);
    res.writeHead(answer.status, Object.fromEntries(answer.headers));
    res.end(Buffer.from(await answer.arrayBuffer()));
  });

  const metadata = () => ({
    issuer: signIn.origin,
    authorization_endpoint: `${signIn.origin}/authorize`,
    token_endpoint: `${signIn.origin}/token`,
    registration_endpoint: `${signIn.origin}/register`,
    response_types_supported: ['code'],
    code_challenge_methods_supported: ['S256'],
    authorization_response_iss_parameter_supported: true,
  });
  const grant = (scope: string): object => {
    const [access_token, refresh_token] = [`access-${randomUUID()}`, `refresh-${randomUUID()}`];
    access.add(access_token);
    refresh.add(refresh_token);
    issued.push(access_token, refresh_token);
    scopes.set(access_token, scope).set(refresh_token, scope);
    return {
      scope,
      access_token,
      refresh_token,
      token_type: 'Bearer',
      expires_in: does.expires_in,
    };
  };
  const signIn = await listen(async (req, res) => {
    const { pathname, searchParams } = new URL(req.url ?? '/', signIn.origin);
    const body = await textOf(req);
    const isForm = req.headers['content-type']?.includes('form') === true;
    const fields = Object.fromEntries(isForm ? new URLSearchParams(body) : searchParams);
    const { authorization } = req.headers;
    asked.push({ path: pathname, fields, authorization });
    if (does.instead(pathname, res)) return;
    switch (pathname) {
      case '/.well-known/oauth-authorization-server':
        return json(res, 200, { ...metadata(), ...does.metadata });
      case '/register':
        return json(res, 201, { ...JSON.parse(body), client_id: 'client-1' });
      case '/authorize': {
        const code = randomUUID();
        const redirect = fields.redirect_uri ?? '';
        const scope = does.grants(fields.scope ?? '');
        codes.set(code, { challenge: fields.code_challenge ?? '', redirect, scope });
        const place = new URL(redirect);
        const answer = does.denies ? { error: 'access_denied' } : { code };
        for (const [name, value] of Object.entries({
          ...answer,
          state: fields.state ?? '',
          iss: does.own?.issuer ?? signIn.origin,
        }))
          place.searchParams.set(name, value);
        return void res.writeHead(302, { location: place.href }).end();
      }
      case '/token': {
        await does.before();
        if (does.secret !== null && secretOf(fields, authorization) !== does.secret)
          return json(res, 401, { error: 'invalid_client' });
        if (fields.grant_type === 'refresh_token')
          return refresh.delete(fields.refresh_token ?? '')
            ? json(res, 200, grant(scopes.get(fields.refresh_token ?? '') ?? ''))
            : json(res, 400, { error: 'invalid_grant', error_description: fields.refresh_token });
        const found = codes.get(fields.code ?? '');
        codes.delete(fields.code ?? '');
        const hash = createHash('sha256')
          .update(fields.code_verifier ?? '')
          .digest('base64url');
        return found?.challenge === hash && found.redirect === fields.redirect_uri
          ? json(res, 200, grant(found.scope))
          : json(res, 400, { error: 'invalid_grant' });
      }
      case '/revoke':
        access.delete(fields.token ?? '');
        refresh.delete(fields.token ?? '');
        return void res.writeHead(200).end();
      default:
        return json(res, 404, {});
    }
  });
  const close = () => {
    tools.close();
    signIn.close();
  };
  const url = `${tools.origin}/mcp`;
  return { url, issuer: signIn.origin, issued, asked, headers, said, access, refresh, does, close };
}

function secretOf(fields: Record<string, string>, authorization = ''): string | undefined {
  const [, basic = ''] = /^Basic (.+)$/.exec(authorization) ?? [];
  return fields.client_secret ?? Buffer.from(basic, 'base64').toString().split(':')[1];
}

/** What a browser does: it opens the page, and goes where that leads. */
export async function browse(page: URL | string): Promise<Response> {
  const leads = await fetch(page, { redirect: 'manual' });
  return fetch(leads.headers.get('location') ?? '');
}

async function listen(
  answer: (req: IncomingMessage, res: ServerResponse) => Promise<void>,
): Promise<{ origin: string; close(): void }> {
  const server = createServer((req, res) => void answer(req, res));
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  return {
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}

async function textOf(req: IncomingMessage): Promise<string> {
  let text = '';
  for await (const piece of req) text += piece;
  return text;
}

function json(res: ServerResponse, status: number, value: unknown): void {
  res.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value));
}

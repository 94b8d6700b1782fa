// One call of the operators' API. Turns every way of failing into a `Failure` that a page can say
// in words; when to call again is decided in `live.svelte.ts`.

export type FailureKind =
  /** No answer: the warden is down, or the network is. */
  | 'unreachable'
  /** There is no such model, conversation or path. */
  | 'missing'
  /** A key is needed, or an admin's. */
  | 'forbidden'
  /** The warden refused the call and said why. */
  | 'refused'
  /** The warden answered what it should not. */
  | 'broken';

export class Failure extends Error {
  readonly kind: FailureKind;

  constructor(kind: FailureKind, message: string) {
    super(message);
    this.kind = kind;
  }
}

let unauthorized = () => {};

/** Has this called when a call fails because the pages' session is over. */
export function whenUnauthorized(then: () => void) {
  unauthorized = then;
}

const root = '/api/v1';
const wait_ms_max = 10_000;

export function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  return call<T>('GET', path, undefined, signal);
}

export async function call<T>(
  method: 'GET' | 'PATCH' | 'POST' | 'DELETE',
  path: string,
  body?: unknown,
  signal?: AbortSignal,
): Promise<T> {
  const limit = AbortSignal.timeout(wait_ms_max);
  let response: Response;
  let text: string;
  try {
    response = await fetch(root + path, {
      method,
      signal: signal ? AbortSignal.any([signal, limit]) : limit,
      cache: 'no-store',
      ...(body === undefined
        ? {}
        : { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
    });
    text = await response.text();
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Failure(
      'unreachable',
      limit.aborted ? 'The warden took longer than 10 s to answer.' : 'The warden does not answer.',
    );
  }
  // A wrong key at the login is no end of a session.
  if (response.status === 401 && path !== '/login') unauthorized();
  if (!response.ok) throw refusal(response.status, text);
  if (text === '') return undefined as T;
  try {
    return JSON.parse(text) as T;
  } catch {
    throw new Failure('broken', `The warden answered ${path} with something that is not JSON.`);
  }
}

function refusal(status: number, text: string): Failure {
  const message = said(text) ?? `The warden answered with status ${status}.`;
  if (status === 404) return new Failure('missing', message);
  if (status === 401 || status === 403) return new Failure('forbidden', message);
  return new Failure(status < 500 ? 'refused' : 'broken', message);
}

/** The message of the API's error body, where it is one. */
function said(text: string): string | undefined {
  try {
    const body = JSON.parse(text) as { error?: { message?: unknown } };
    return typeof body.error?.message === 'string' ? body.error.message : undefined;
  } catch {
    return undefined;
  }
}

// How routes and ends are said. The reason itself comes from the API, in words.

import type { Request } from '../api/types';
import { shortId } from './format';

/** Who went where: "Turn 14 of 3f2a9c on replica 2". */
export function whoWhere(request: Request): string {
  const who =
    request.conversation == null
      ? 'A request'
      : request.route == null
        ? `A request of ${shortId(request.conversation)}`
        : request.turn
          ? `Turn ${request.turn} of ${shortId(request.conversation)}`
          : `A side request of ${shortId(request.conversation)}`;
  if (request.route == null) return who;
  return request.replica == null
    ? `${who}, placed by vLLM`
    : `${who} on replica ${request.replica}`;
}

const ends: Record<NonNullable<Request['end']>, string> = {
  complete: 'complete',
  refused: 'refused',
  engine_error: 'engine error',
  cut: 'cut off',
  lost: 'lost',
  client_gone: 'client left',
  timeout: 'no progress',
  shutdown: 'shut down',
  internal: 'failed in the warden',
};

/** What a request is doing now; null once it has ended. */
export function phase(request: Request): string | null {
  if (request.end != null) return null;
  if (request.route == null) return 'waiting for a place';
  return request.ttfb_ms == null ? 'waiting for the first byte' : 'streaming';
}

/** How a request ended, with its status where that says more. */
export function ending(request: Request): string {
  if (request.end == null) return '';
  const word = ends[request.end] ?? request.end;
  return request.end === 'complete' || request.status == null
    ? word
    : `${word} (${request.status})`;
}

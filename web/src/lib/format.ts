// Numbers and times as people read them. Every function takes "unknown" and answers with a dash:
// a figure that nobody measured must never look like a zero.

export const dash = '–';

type Maybe<T> = T | null | undefined;

const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const tenth = new Intl.NumberFormat('en', { minimumFractionDigits: 1, maximumFractionDigits: 1 });
const short = new Intl.NumberFormat('en', {
  notation: 'compact',
  minimumSignificantDigits: 3,
  maximumSignificantDigits: 3,
});

export function count(value: Maybe<number>): string {
  return value == null ? dash : whole.format(value);
}

/** `12.3K`: where space is scarce. Put the exact value into a title. */
export function compact(value: Maybe<number>): string {
  return value == null || value < 1000 ? count(value) : short.format(value);
}

/** A rate: tenths matter only where it is small. */
export function rate(value: Maybe<number>): string {
  if (value == null) return dash;
  return value < 100 ? tenth.format(value) : whole.format(value);
}

/** A percentage, as the API gives it (0 to 100). */
export function percent(value: Maybe<number>): string {
  return value == null ? dash : `${tenth.format(value)} %`;
}

/** A share, as the API gives it (0 to 1), as a percentage. */
export function share(value: Maybe<number>): string {
  return value == null ? dash : percent(value * 100);
}

/** A duration given in milliseconds. */
export function duration(ms: Maybe<number>): string {
  if (ms == null) return dash;
  if (ms > 0 && ms < 1) return '< 1 ms';
  if (ms < 1000) return `${whole.format(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 2 : 1)} s`;
  return age(ms / 1000);
}

/** An age given in seconds, in its one or two largest units. */
export function age(seconds: Maybe<number>): string {
  if (seconds == null) return dash;
  const s = Math.max(0, Math.floor(seconds));
  if (s < 60) return `${s} s`;
  const minutes = Math.floor(s / 60);
  if (minutes < 60) return minutes < 10 && s % 60 ? `${minutes} min ${s % 60} s` : `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return minutes % 60 ? `${hours} h ${minutes % 60} min` : `${hours} h`;
  return `${Math.floor(hours / 24)} d`;
}

/** How long ago, from an age in seconds. */
export function ago(seconds: Maybe<number>): string {
  if (seconds == null) return dash;
  return seconds < 1 ? 'just now' : `${age(seconds)} ago`;
}

const clock = new Intl.DateTimeFormat('en', { timeStyle: 'medium', hourCycle: 'h23' });
const dated = new Intl.DateTimeFormat('en', {
  month: 'short',
  day: 'numeric',
  hour: '2-digit',
  minute: '2-digit',
  hourCycle: 'h23',
});

/** Time of day in the browser's zone; epoch seconds. */
export function time(t: Maybe<number>): string {
  return t == null ? dash : clock.format(t * 1000);
}

/** Time of day, with the date where that is not today's. */
export function moment(t: Maybe<number>, now: number): string {
  if (t == null) return dash;
  const sameDay = new Date(t * 1000).toDateString() === new Date(now * 1000).toDateString();
  return sameDay ? time(t) : dated.format(t * 1000);
}

/** For titles and `<time datetime>`. */
export function iso(t: Maybe<number>): string {
  return t == null ? '' : new Date(t * 1000).toISOString();
}

export const timeZone = Intl.DateTimeFormat().resolvedOptions().timeZone;

/** An id of 16 hex digits, by its beginning. */
export function shortId(id: Maybe<string>): string {
  return id == null ? dash : id.slice(0, 6);
}

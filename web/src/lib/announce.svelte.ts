// What changed, for those who listen to the page instead of watching it (one aria-live region).
// Only changes of state and answers to what the operator did: figures change all the time.

class Announcer {
  text = $state('');

  say(text: string) {
    this.text = text;
  }
}

export const announcer = new Announcer();

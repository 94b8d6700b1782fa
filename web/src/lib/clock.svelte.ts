// The time of day for ages on the page, in epoch seconds, once a second. Hidden tabs need none.

class Clock {
  now = $state(Date.now() / 1000);

  constructor() {
    setInterval(() => {
      if (!document.hidden) this.tick();
    }, 1000);
    document.addEventListener('visibilitychange', () => this.tick());
  }

  tick() {
    this.now = Date.now() / 1000;
  }
}

export const clock = new Clock();

// Loaded before optuna-dashboard's own script: names the trials by variant and seed, hides what cannot be used, and
// shows why a change was refused.
"use strict";
(() => {
  const BUTTONS = ["Create", "Compare", "Fail Trial", "Submit"];
  const runs = []; // trial number -> variant and seed
  const own = window.fetch.bind(window);

  window.fetch = async (resource, options) => {
    const answer = await own(resource, options);
    const path = new URL(answer.url || String(resource), location.href).pathname;
    if (answer.status === 403) {
      const body = await answer.clone().json().catch(() => ({}));
      refuse(body.reason || "refused");
    } else if (answer.ok && /^\/api\/studies\/\d+$/.test(path)) {
      const study = await answer.json();
      for (const trial of study.trials) {
        const value = Object.fromEntries(trial.params.map((p) => [p.name, p.param_external_value]));
        runs[trial.number] = `${value.variant}, seed ${value.seed}`;
      }
      study.best_trials = []; // the highest number of one run is no verdict
      return new Response(JSON.stringify(study), { headers: { "Content-Type": "application/json" } });
    }
    return answer;
  };

  window.knockoutRun = (number) => runs[number] || `trial #${number}`;

  function refuse(reason) {
    const line = document.getElementById("knockout-refusal") || document.createElement("div");
    line.id = "knockout-refusal";
    line.setAttribute("role", "alert");
    line.textContent = `Nothing was changed: ${reason}`;
    document.body.append(line);
    clearTimeout(line.timer);
    line.timer = setTimeout(() => line.remove(), 15000);
  }

  function label(element) {
    const number = /^Trial (?:id: )?(\d+)(?: \(trial_id=\d+\))?$/.exec(element.textContent);
    const run = number && runs[Number(number[1])];
    if (run) {
      element.setAttribute("data-knockout-run", run);
      element.title = run;
    } else if (element.hasAttribute("data-knockout-run")) {
      element.removeAttribute("data-knockout-run");
      element.removeAttribute("title");
    }
  }

  // An element may be used again for something else: every pass decides anew.
  function pass() {
    const hidden = new Set();
    for (const element of document.querySelectorAll(".MuiTypography-root")) {
      label(element);
      const text = element.textContent;
      if (/^Best Trial/.test(text)) hidden.add(element.closest(".MuiGrid-item, .MuiMenuItem-root, .MuiCard-root"));
      const next = element.nextElementSibling;
      if (text === "Note" && next && next.matches(".MuiCard-root") && !next.textContent.trim()) {
        hidden.add(element).add(next);
      }
    }
    for (const button of document.querySelectorAll("button, a.MuiButton-root")) {
      if (BUTTONS.includes(button.textContent.trim())) hidden.add(button);
    }
    for (const element of document.querySelectorAll("[data-knockout-hidden]")) {
      if (!hidden.has(element)) element.removeAttribute("data-knockout-hidden");
    }
    for (const element of hidden) if (element) element.setAttribute("data-knockout-hidden", "");
  }

  let waiting = false;
  new MutationObserver(() => {
    if (waiting) return;
    waiting = true;
    setTimeout(() => {
      waiting = false;
      pass();
    }, 50);
  }).observe(document.documentElement, { childList: true, characterData: true, subtree: true });
})();

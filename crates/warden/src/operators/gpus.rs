//! `GET /gpus`: the machine's cards, and which replicas are configured to run on each.

use std::sync::Arc;

use axum::{Json, extract::State};

use super::Operators;
use crate::{
    config::{Config, Engine},
    gpus::{Card, Look},
};

pub(super) async fn get(State(operators): State<Arc<Operators>>) -> Json<api::Gpus> {
    Json(view(operators.gpus.last(), &operators.reloader.current()))
}

pub(super) fn view(look: Look, config: &Config) -> api::Gpus {
    match look {
        Look::Nothing(why) => api::Gpus {
            gpus: Vec::new(),
            driver: None,
            unavailable: Some(why),
        },
        Look::Cards { cards, driver } => api::Gpus {
            gpus: cards.into_iter().map(|card| gpu(card, config)).collect(),
            driver,
            unavailable: None,
        },
    }
}

fn gpu(card: Card, config: &Config) -> api::Gpu {
    api::Gpu {
        gpu: card.number,
        replicas: replicas(card.number, config),
        name: card.name,
        memory_bytes: card.memory_bytes,
        memory_used_bytes: card.memory_used_bytes,
        utilisation: card.utilisation,
        temperature_c: card.temperature_c,
        power_w: card.power_w,
    }
}

/// Replica r of an engine has the r-th run of its cards.
fn replicas(card: u32, config: &Config) -> Vec<api::GpuReplica> {
    let on_card = config.models.iter().filter_map(|model| {
        let Engine::Vllm(engine) = &model.engine else {
            return None;
        };
        let place = engine
            .cards()
            .into_iter()
            .position(|number| number == card)?;
        Some(api::GpuReplica {
            model: model.name.clone(),
            replica: (place / usize::from(engine.tensor_parallel_size)) as u16,
        })
    });
    on_card.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Overrides;

    #[test]
    fn a_card_shows_the_replica_that_runs_there() {
        let text = "[[models]]\nname = \"m\"\n[models.engine]\nkind = \"vllm\"\nmodel = \"x\"\n\
                    data_parallel_size = 2\ntensor_parallel_size = 2\ngpus = [4, 5, 6, 7]";
        let overrides = Overrides {
            data_dir: Some("/state".into()),
            ..Overrides::default()
        };
        let config = Config::parse(text, &overrides).expect("a good configuration");
        let card = |number| Card {
            number,
            name: None,
            memory_bytes: Some(1),
            memory_used_bytes: None,
            utilisation: None,
            temperature_c: None,
            power_w: None,
        };
        let look = Look::Cards {
            cards: vec![card(0), card(6)],
            driver: None,
        };
        let seen = view(look, &config);
        assert_eq!(seen.gpus[0].replicas, []);
        let there = api::GpuReplica {
            model: "m".to_owned(),
            replica: 1,
        };
        assert_eq!(seen.gpus[1].replicas, [there]);
        let nothing = view(Look::Nothing("no driver".to_owned()), &config);
        assert_eq!(nothing.unavailable.as_deref(), Some("no driver"));
    }
}

//! The machine's cards, as NVIDIA's management library shows them. The library is loaded when it is
//! there; without it, or without a card, everything else works, and this says why it shows nothing.

use std::{
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use nvml_wrapper::{Device, Nvml, enum_wrappers::device::TemperatureSensor, error::NvmlError};

/// From one look to the next.
const INTERVAL: Duration = Duration::from_secs(2);

/// One card. What it does not tell is `None`.
#[derive(Debug, Clone, PartialEq)]
pub struct Card {
    /// Its number, as `nvidia-smi` prints it and `gpus` names it.
    pub number: u32,
    /// Its name.
    pub name: Option<String>,
    /// Memory, in bytes: all of it, and what is in use.
    pub memory_bytes: Option<u64>,
    /// See `memory_bytes`.
    pub memory_used_bytes: Option<u64>,
    /// Share of the time in which it computed, 0 to 1.
    pub utilisation: Option<f64>,
    /// Degrees Celsius.
    pub temperature_c: Option<f64>,
    /// Watts.
    pub power_w: Option<f64>,
}

/// What a look brought.
#[derive(Debug, Clone, PartialEq)]
pub enum Look {
    /// The cards, at least one, and the driver's version.
    Cards {
        /// By number.
        cards: Vec<Card>,
        /// The driver's version.
        driver: Option<String>,
    },
    /// None can be seen; why.
    Nothing(String),
}

/// The last look, shared.
#[derive(Debug)]
pub struct Gpus(RwLock<Look>);

impl Default for Gpus {
    fn default() -> Self {
        Self(RwLock::new(Look::Nothing(
            "the cards have not been looked at yet".to_owned(),
        )))
    }
}

impl Gpus {
    /// The last look.
    pub fn last(&self) -> Look {
        self.0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Looks again and again, until it is dropped. Without the library once is enough.
    pub async fn watch(self: Arc<Self>) {
        // The library's calls may take long where a card has fallen off the bus.
        let opened = tokio::task::spawn_blocking(Nvml::init).await;
        let nvml = match opened {
            Ok(Ok(nvml)) => Arc::new(nvml),
            Ok(Err(error)) => return self.set(Look::Nothing(why(&error))),
            Err(_) => return,
        };
        loop {
            let nvml = Arc::clone(&nvml);
            if let Ok(look) = tokio::task::spawn_blocking(move || look_with(&nvml)).await {
                self.set(look);
            }
            tokio::time::sleep(INTERVAL).await;
        }
    }

    fn set(&self, look: Look) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = look;
    }
}

/// One look. Blocks.
pub fn look() -> Look {
    match Nvml::init() {
        Ok(nvml) => look_with(&nvml),
        Err(error) => Look::Nothing(why(&error)),
    }
}

fn look_with(nvml: &Nvml) -> Look {
    let count = match nvml.device_count() {
        Ok(count) => count,
        Err(error) => return Look::Nothing(why(&error)),
    };
    let cards: Vec<Card> = (0..count)
        .filter_map(|number| Some(card(number, &nvml.device_by_index(number).ok()?)))
        .collect();
    if cards.is_empty() {
        return Look::Nothing("the NVIDIA driver shows no card".to_owned());
    }
    Look::Cards {
        cards,
        driver: nvml.sys_driver_version().ok(),
    }
}

fn card(number: u32, device: &Device<'_>) -> Card {
    let memory = device.memory_info().ok();
    let temperature = device.temperature(TemperatureSensor::Gpu).ok();
    Card {
        number,
        name: device.name().ok(),
        memory_bytes: memory.as_ref().map(|memory| memory.total),
        memory_used_bytes: memory.as_ref().map(|memory| memory.used),
        utilisation: device
            .utilization_rates()
            .ok()
            .map(|rates| f64::from(rates.gpu) / 100.0),
        temperature_c: temperature.map(f64::from),
        power_w: device
            .power_usage()
            .ok()
            .map(|milliwatts| f64::from(milliwatts) / 1000.0),
    }
}

fn why(error: &NvmlError) -> String {
    match error {
        NvmlError::LibloadingError(_) | NvmlError::LibraryNotFound => {
            "no NVIDIA driver: its management library (libnvidia-ml.so) is not installed".to_owned()
        }
        NvmlError::DriverNotLoaded => {
            "the NVIDIA driver is installed, but not loaded (try nvidia-smi)".to_owned()
        }
        NvmlError::LibRmVersionMismatch => {
            "the NVIDIA driver was updated, and the old one still runs: reboot".to_owned()
        }
        error => format!("the NVIDIA driver does not answer: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_driver_and_a_stale_one_are_told_apart() {
        assert!(why(&NvmlError::LibraryNotFound).contains("no NVIDIA driver"));
        assert!(why(&NvmlError::DriverNotLoaded).contains("not loaded"));
        assert!(why(&NvmlError::LibRmVersionMismatch).contains("reboot"));
        assert!(why(&NvmlError::Unknown).contains("does not answer"));
    }

    /// On a machine without the library this is the whole of it; with one, it finds cards.
    #[tokio::test]
    async fn a_look_says_what_there_is_or_why_there_is_nothing() {
        match look() {
            Look::Nothing(why) => {
                assert!(!why.is_empty());
                let gpus = Arc::new(Gpus::default());
                Arc::clone(&gpus).watch().await;
                assert_eq!(gpus.last(), Look::Nothing(why));
            }
            Look::Cards { cards, .. } => assert_eq!(cards[0].number, 0),
        }
    }
}
